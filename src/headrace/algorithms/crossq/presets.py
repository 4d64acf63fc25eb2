"""Settings that are known to work."""

from headrace.algorithms.config import Tuned
from headrace.algorithms.crossq.config import CrossQ

__all__ = ["FRUGAL_PRESETS", "PRESETS"]

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
    "LunarLanderContinuous-v3": Tuned(
        CrossQ(
            hidden=(128, 128),
            critic_hidden=(128, 128),
            batch_size=128,
            replay_capacity=150_000,
            samples_per_step=64.0,
        ),
        steps=300_000,
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

FRUGAL_PRESETS: dict[str, Tuned] = {  # an update or two for each environment step
    "Pendulum-v1": Tuned(
        CrossQ(
            hidden=(64, 64),
            critic_hidden=(128, 128),
            batch_size=128,
            learning_starts=200,
            samples_per_step=256.0,
            policy_update_period=1,
        ),
        steps=6_000,
    ),
    "LunarLanderContinuous-v3": Tuned(
        CrossQ(
            hidden=(128, 128),
            critic_hidden=(128, 128),
            batch_size=128,
            learning_starts=2_000,
            samples_per_step=128.0,
        ),
        steps=200_000,
    ),
    "HalfCheetah-v5": Tuned(
        CrossQ(
            hidden=(128, 128),
            critic_hidden=(128, 128),
            batch_size=128,
            replay_capacity=150_000,
            samples_per_step=128.0,
        ),
        steps=100_000,
    ),
}
"""Settings that need few environment steps; each step costs more time than with the presets above."""
