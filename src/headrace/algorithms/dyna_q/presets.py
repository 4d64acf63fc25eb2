"""Settings that are known to work."""

from headrace.algorithms.config import Tuned
from headrace.algorithms.dyna_q.config import DynaQ

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {
    "LunarLander-v3": Tuned(
        DynaQ(
            hidden=(128, 128),
            batch_size=128,
            samples_per_step=32.0,
            epsilon_decay_steps=50_000,
            search_control="uniform",
        ),
        steps=300_000,
    ),
}
