"""Settings that are known to work."""

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Tuned

__all__ = ["PRESETS"]

PRESETS: dict[str, Tuned] = {
    "CartPole-v1": Tuned(
        A3C(hidden=(64, 64), n_step=16, learning_rate=2e-3, trunk="separate"),
        steps=200_000,
    ),
    "LunarLander-v3": Tuned(
        A3C(
            hidden=(128, 128),
            n_step=64,
            discount=0.995,
            learning_rate=3e-3,
            entropy_bonus=0.1,
            max_gradient_norm=10.0,
            trunk="separate",
        ),
        steps=3_000_000,
    ),
    "Pendulum-v1": Tuned(  # means saturate early: only a large sigma still tries the other sign
        A3C(
            hidden=(64, 64),
            n_step=32,
            discount=0.9,
            learning_rate=2e-3,
            entropy_bonus=1.0,
            max_gradient_norm=0.0,
            trunk="separate",
        ),
        steps=500_000,
    ),
}
