"""Settings that are known to work."""

import dataclasses

from headrace.algorithms.config import Tuned
from headrace.algorithms.sac.config import SAC

__all__ = ["PRESETS"]

_MUJOCO = SAC(
    hidden=(128, 128),
    critic_hidden=(128, 128),
    learning_rate=1e-3,
    critic_learning_rate=1e-3,
    temperature_learning_rate=1e-3,
    batch_size=128,
    replay_capacity=1_000_000,
    learning_starts=10_000,
    samples_per_step=64.0,
)

PRESETS: dict[str, Tuned] = {
    "Pendulum-v1": Tuned(
        SAC(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            learning_rate=1e-3,
            critic_learning_rate=1e-3,
            temperature_learning_rate=1e-3,
            batch_size=128,
            samples_per_step=32.0,
        ),
        steps=20_000,
    ),
    "HalfCheetah-v5": Tuned(_MUJOCO, steps=300_000),
    "Hopper-v5": Tuned(_MUJOCO, steps=300_000),
    "Walker2d-v5": Tuned(_MUJOCO, steps=500_000),
    "BipedalWalker-v3": Tuned(dataclasses.replace(_MUJOCO, n_step=3, discount=0.98), steps=500_000),
    "LunarLanderContinuous-v3": Tuned(
        SAC(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            learning_rate=7e-4,
            critic_learning_rate=7e-4,
            temperature_learning_rate=7e-4,
            target_update_rate=0.01,
            batch_size=128,
            replay_capacity=150_000,
            learning_starts=5_000,
            samples_per_step=48.0,
        ),
        steps=300_000,
    ),
    "dm_control/cartpole-balance": Tuned(
        SAC(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            batch_size=128,
            samples_per_step=64.0,
        ),
        steps=80_000,
    ),
    "headrace/Reach-v0": Tuned(
        SAC(
            n_step=3,
            discount=0.95,
            hidden=(64, 64),
            critic_hidden=(64, 64),
            learning_rate=1e-3,
            critic_learning_rate=1e-3,
            temperature_learning_rate=1e-3,
            batch_size=128,
            samples_per_step=128.0,
        ),
        steps=40_000,
    ),
}
