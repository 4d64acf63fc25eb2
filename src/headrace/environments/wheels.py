"""Actions of several dimensions in a task that is learned in seconds; and a frozen lake without chance."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Wheels", "register"]


class Wheels(gymnasium.Env[Array, Any]):
    """Three wheels that turn to the places that the observation shows; the action has one dimension for each.

    They have 3, 4 and 5 places, counted from 1, 0 and 0. The observation, float32 [3], is where each should be, in
    [0, 1). The reward is the number of right wheels, and an episode is truncated after 5 steps: 15 is the largest
    return.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self._counts, self._first = np.array([3, 4, 5]), np.array([1, 0, 0])
        self.action_space = spaces.MultiDiscrete(self._counts, start=self._first)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Draws the first places."""
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: NDArray[np.int64]) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Turns the wheels and draws the next places."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        self._steps += 1
        right = int((action - self._first == self._places).sum())
        return self._observe(), float(right), False, self._steps >= 5, {}

    def _observe(self) -> Array:
        self._places = self.np_random.integers(self._counts)
        place: Array = (self._places / self._counts).astype(np.float32)
        return place


def register() -> None:
    """Registers headrace/Wheels-v0, and headrace/FrozenLakeNotSlippery-v0: FrozenLake-v1 whose ice is not slippery."""
    gymnasium.register("headrace/Wheels-v0", f"{Wheels.__module__}:Wheels")
    lake = gymnasium.spec("FrozenLake-v1")
    options = {**lake.kwargs, "is_slippery": False}
    steps = lake.max_episode_steps
    gymnasium.register("headrace/FrozenLakeNotSlippery-v0", lake.entry_point, max_episode_steps=steps, kwargs=options)
