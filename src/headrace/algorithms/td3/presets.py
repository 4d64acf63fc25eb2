"""Settings that are known to work."""

from headrace.algorithms.config import Tuned
from headrace.algorithms.td3.config import TD3

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {
    "Pendulum-v1": Tuned(
        TD3(
            n_step=3,
            hidden=(128, 128),
            critic_hidden=(128, 128),
            learning_rate=1e-3,
            critic_learning_rate=1e-3,
            batch_size=128,
            samples_per_step=64.0,
            sigmas=(0.1, 0.5),
        ),
        steps=30_000,
    ),
}
