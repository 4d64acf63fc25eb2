"""Settings that are known to work."""

from headrace.algorithms.config import Tuned
from headrace.algorithms.r2d2.config import R2D2

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {
    "headrace/TMaze-v0": Tuned(
        R2D2(
            hidden=(32,),
            memory=32,
            burn_in=0,
            learned_steps=40,
            n_step=5,
            discount=0.98,
            learning_rate=2e-3,
            target_update_period=100,
            samples_per_step=64.0,
            epsilon_decay_steps=20_000,
        ),
        steps=150_000,
    ),
    "headrace/CartPolePositions-v0": Tuned(
        R2D2(
            burn_in=10,
            learned_steps=20,
            target_update_period=200,
            samples_per_step=64.0,
            epsilon_final=0.02,
        ),
        steps=200_000,
    ),
}
