"""Small environments for tests: two that are learned in seconds, one with numbered frames, and faulty ones.

Their ids have the form "headrace.environments.toy:Corridor".
"""

import os
import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Corridor", "Crashing", "Exiting", "Frames", "Hanging", "InfReward", "NanObservation", "Target"]

_Result = tuple[Array, float, bool, bool, dict[str, Any]]


class Corridor(gymnasium.Env[Array, np.int64]):
    """A row of cells; the agent starts in the leftmost. Action 1 moves right, 0 left. The rightmost cell is the goal.

    Reaching the goal is worth +1 and ends the episode. The observation is float32 [cells], 1 at the agent's cell.
    Truncated after `limit` steps.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, render_mode: str | None = None, cells: int = 8, limit: int = 40) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0.0, 1.0, (cells,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cells = cells
        self._limit = limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Puts the agent in the leftmost cell."""
        super().reset(seed=seed, options=options)
        self._cell = self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> _Result:
        """Moves one cell, but not through a wall."""
        self._steps += 1
        self._cell = min(self._cells - 1, max(0, self._cell + (1 if action == 1 else -1)))
        arrived = self._cell == self._cells - 1
        return self._observe(), float(arrived), arrived, not arrived and self._steps >= self._limit, {}

    def render(self) -> Array:
        """Draws the corridor with 16 pixels per cell: uint8 [16, 16 cells, 3]."""
        cells = np.repeat(self._observe()[None, :, None], 3, axis=2) * 255
        return cells.astype(np.uint8).repeat(16, axis=0).repeat(16, axis=1)

    def _observe(self) -> Array:
        observation = np.zeros(self._cells, np.float32)
        observation[self._cell] = 1.0
        return observation


class Frames(gymnasium.Env[Array, np.int64]):
    """Frames uint8 [84, 84] that show their origin: row 0 holds the episode's number, the other rows the step's.

    Both count from 0, modulo 256. An episode has `length` steps with reward 1; episodes with even numbers terminate,
    those with odd numbers are truncated.
    """

    def __init__(self, length: int = 6) -> None:
        self.observation_space = spaces.Box(0, 255, (84, 84), np.uint8)
        self.action_space = spaces.Discrete(2)
        self._length = length
        self._episode = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts the next episode."""
        super().reset(seed=seed, options=options)
        self._episode += 1
        self._steps = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> _Result:
        """Returns the next frame for any action."""
        self._steps += 1
        ended = self._steps >= self._length
        return self._observe(), 1.0, ended and self._episode % 2 == 0, ended and self._episode % 2 == 1, {}

    def _observe(self) -> Array:
        frame = np.full((84, 84), self._steps % 256, np.uint8)
        frame[0] = self._episode % 256
        return frame


class Target(gymnasium.Env[Array, NDArray[np.float32]]):
    """A point and a target at random places on a line from -1 to 1; the action, float32 [1], moves the point.

    Actions are -0.5 to 0.5. The observation, float32 [2], is the position of the point and of the target. The reward is
    1 - distance / 2 after the step; an episode is truncated after `limit` steps. The best policy moves as close as it
    can: from an initial distance d, 10 steps are worth 10 - (max(0, d - 0.5) + max(0, d - 1) + max(0, d - 1.5)) / 2,
    on average 9.8125. Standing still is worth 6.67.
    """

    def __init__(self, limit: int = 10) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Box(-0.5, 0.5, (1,), np.float32)
        self._limit = limit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Draws point and target."""
        super().reset(seed=seed, options=options)
        self._point, self._target = self.np_random.uniform(-1, 1, 2).tolist()
        self._steps = 0
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> _Result:
        """Moves the point, but not past the ends of the line."""
        self._steps += 1
        self._point = min(1.0, max(-1.0, self._point + min(0.5, max(-0.5, float(action[0])))))
        reward = 1 - abs(self._point - self._target) / 2
        return self._observe(), reward, False, self._steps >= self._limit, {}

    def _observe(self) -> Array:
        return np.array([self._point, self._target], np.float32)


class _Faulty(gymnasium.Env[Array, np.int64]):
    """Works until step `fault_step` of an episode: observations are zeros, float32 [4], and episodes never end."""

    fault_step = 7

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: np.int64) -> _Result:
        self._steps += 1
        observation = np.zeros(4, np.float32)
        reward = self.misbehave(observation) if self._steps == self.fault_step else 0.0
        return observation, reward, False, False, {}

    def misbehave(self, observation: Array) -> float:
        raise NotImplementedError


class NanObservation(_Faulty):
    """Returns NaN in observation[3] at step 7."""

    def misbehave(self, observation: Array) -> float:
        """Corrupts the observation."""
        observation[3] = np.nan
        return 0.0


class InfReward(_Faulty):
    """Returns an infinite reward at step 7."""

    def misbehave(self, observation: Array) -> float:
        """Returns the faulty reward."""
        return float("inf")


class Hanging(_Faulty):
    """Never returns from step 7."""

    def misbehave(self, observation: Array) -> float:
        """Waits for an event that is never set."""
        threading.Event().wait()
        return 0.0


class Crashing(_Faulty):
    """Raises RuntimeError at step 7."""

    def misbehave(self, observation: Array) -> float:
        """Raises."""
        raise RuntimeError("the environment crashed, as it is meant to")


class Exiting(_Faulty):
    """Ends the whole process with exit code 3 at step 7, without a message."""

    def misbehave(self, observation: Array) -> float:
        """Ends the process."""
        os._exit(3)
