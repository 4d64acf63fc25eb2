"""Environments that need memory: one observation does not tell what to do."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from headrace.types import Array

__all__ = ["PositionsOnly", "TMaze", "register"]

_POSITIONS = [0, 2]


class TMaze(gymnasium.Env[Array, np.int64]):
    """A corridor of `length` cells that ends in a junction; a cue in the first cell says which way to turn there.

    Action 0 moves forward, 1 turns left, 2 right; only the junction has sides. A turn ends the episode: the one that
    the cue says is worth +1, the other 0. The observation is float32 [4]: cue left, cue right, corridor, junction. The
    best policy gets 1, and no policy without memory more than 0.5 on average. Truncated after `8 * length` steps. After
    Bakker 2002.
    """

    def __init__(self, length: int = 30) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Draws the cue."""
        super().reset(seed=seed, options=options)
        self._cue = int(self.np_random.integers(2))
        self._cell = self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves forward, or turns if there is a side."""
        self._steps += 1
        turned = self._cell == self._length and action != 0
        if action == 0:
            self._cell = min(self._length, self._cell + 1)
        reward = float(turned and action - 1 == self._cue)
        return self._observe(), reward, turned, not turned and self._steps >= 8 * self._length, {}

    def _observe(self) -> Array:
        observation = np.zeros(4, np.float32)
        place = self._cue if self._cell == 0 else 3 if self._cell == self._length else 2
        observation[place] = 1.0
        return observation


class PositionsOnly(gymnasium.ObservationWrapper[Array, Any, Array]):
    """CartPole-v1 without its velocities: the cart's position and the pole's angle, float32 [2].

    After the masked classic control tasks of Meng et al. 2021.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        environment = gymnasium.make("CartPole-v1", render_mode=render_mode)
        super().__init__(environment)
        box = environment.observation_space
        assert isinstance(box, spaces.Box)
        self.observation_space = spaces.Box(box.low[_POSITIONS], box.high[_POSITIONS], dtype=np.float32)

    def observation(self, observation: Array) -> Array:
        """The positions."""
        positions: Array = observation[_POSITIONS]
        return positions


def register() -> None:
    """Registers them with Gymnasium: headrace/TMaze-v0 (30 cells), TMazeShort-v0 (5) and CartPolePositions-v0."""
    for name, length in {"TMaze": 30, "TMazeShort": 5}.items():
        gymnasium.register(f"headrace/{name}-v0", f"{TMaze.__module__}:TMaze", kwargs={"length": length})
    gymnasium.register("headrace/CartPolePositions-v0", f"{PositionsOnly.__module__}:PositionsOnly")
