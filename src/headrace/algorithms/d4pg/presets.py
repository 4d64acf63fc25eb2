"""Settings that are known to work."""

import dataclasses

from headrace.algorithms.config import Tuned
from headrace.algorithms.d4pg.config import D4PG

__all__ = ["PRESETS"]

_CONTROL_SUITE = D4PG(  # whose rewards are all in [0, 1]: at this discount no return is above 100
    critic_hidden=(256, 256),
    learning_rate=3e-4,
    critic_learning_rate=1e-3,
    target_update_period=20,
    samples_per_step=16.0,
    sigmas=(0.2, 0.5),
    value_min=-100.0,
    value_max=100.0,
    saturation_penalty=3e-3,
    replay_capacity=300_000,
)
_MORE_UPDATES = dataclasses.replace(  # an update for every second step, of smaller networks
    _CONTROL_SUITE,
    hidden=(128, 128),
    critic_hidden=(128, 128),
    batch_size=128,
    samples_per_step=64.0,
)
_DENSE_REWARDS = dataclasses.replace(_CONTROL_SUITE, value_min=0.0)

PRESETS: dict[str, Tuned] = {
    "Pendulum-v1": Tuned(
        D4PG(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            learning_rate=1e-3,
            critic_learning_rate=1e-3,
            batch_size=128,
            target_update_rate=0.005,
            target_update_period=1,
            samples_per_step=64.0,
            value_min=-1500.0,
            value_max=0.0,
            saturation_penalty=0.02,
            sigmas=(0.1, 0.5),
        ),
        steps=60_000,
    ),
    "dm_control/cartpole-balance": Tuned(
        _CONTROL_SUITE,
        steps=60_000,
    ),
    "dm_control/walker-stand": Tuned(
        _DENSE_REWARDS,
        steps=300_000,
    ),
    "dm_control/finger-spin": Tuned(
        _MORE_UPDATES,
        steps=600_000,
    ),
    "dm_control/hopper-hop": Tuned(
        dataclasses.replace(_MORE_UPDATES, replay_capacity=1_000_000, learning_starts=10_000),
        steps=1_500_000,
    ),
    "dm_control/...": Tuned(
        _CONTROL_SUITE,
        steps=1_000_000,
    ),
}
