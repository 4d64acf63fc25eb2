"""Frames of Breakout with a random player, which compress like real ones."""

import numpy as np

from benchmarks.experience import Steps
from headrace.environments import make

__all__ = ["play_breakout"]

_GAME = "ALE/Breakout-v5"


def play_breakout(count: int, seed: int) -> Steps:
    """Frames [84, 84] uint8 of preprocessed games, concatenated to one long episode."""
    game = make(_GAME)
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 4, count)
    reward = np.zeros(count, np.float32)
    frames = [game.reset(seed=seed)[0]]
    for t in range(count):
        frame, reward[t], terminated, truncated, _ = game.step(int(action[t]))
        frames.append(game.reset()[0] if terminated or truncated else frame)
    game.close()
    return Steps(np.array(frames), action, reward, rng.standard_normal(count + 1))
