"""Settings that are known to work."""

from headrace.algorithms.config import Tuned
from headrace.algorithms.crossq.config import CrossQ

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {
    "Pendulum-v1": Tuned(
        CrossQ(
            hidden=(64, 64),
            critic_hidden=(128, 128),
            batch_size=128,
            learning_starts=1_000,
            samples_per_step=64.0,
        ),
        steps=10_000,
    ),
    "Ant-v5": Tuned(
        CrossQ(
            hidden=(128, 128),
            critic_hidden=(128, 128),
            batch_size=128,
            replay_capacity=1_000_000,
            learning_starts=10_000,
            samples_per_step=64.0,
        ),
        steps=800_000,
    ),
}
