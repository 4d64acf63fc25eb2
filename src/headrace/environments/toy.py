"""Small environments for tests: some that are learned in seconds, one with numbered frames, and faulty ones.

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

__all__ = [
    "Corridor",
    "Crashing",
    "Exiting",
    "Frames",
    "Goal",
    "Hanging",
    "InfReward",
    "Maze",
    "NanObservation",
    "Target",
]

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


class Goal(gymnasium.Env[Any, NDArray[np.float32]]):
    """A point that moves to a goal at a random place of the plane, with observations as in Gymnasium's Fetch tasks.

    They are a Dict of the point's last velocity ("observation"), its place ("achieved_goal") and the goal
    ("desired_goal"), float64 [2] each. Actions, float32 [2] in [-1, 1], move it by up to 0.25 in each dimension. The
    reward is minus the distance to the goal after the step; an episode is truncated after 10 steps.
    """

    def __init__(self) -> None:
        box = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = spaces.Dict(achieved_goal=box, desired_goal=box, observation=box)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Draws place and goal."""
        super().reset(seed=seed, options=options)
        self._place, self._goal = self.np_random.uniform(-1, 1, (2, 2))
        self._velocity = np.zeros(2)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Moves the point, but not out of the square."""
        self._steps += 1
        place = np.clip(self._place + 0.25 * action, -1, 1)
        self._velocity, self._place = place - self._place, place
        distance = float(np.linalg.norm(self._place - self._goal))
        return self._observe(), -distance, False, self._steps >= 10, {}

    def _observe(self) -> dict[str, Array]:
        return {"achieved_goal": self._place, "desired_goal": self._goal, "observation": self._velocity}


class Maze(gymnasium.Env[Any, np.int64]):
    """A square of `side` cells whose walls the action mask excludes; observations are those of MiniGrid without text.

    Actions 5 to 8 move up, right, down and left. `info["action_mask"]` has a 1 for each that stays in the square; one
    that does not raises. The observation is a Dict of the `image`, uint8 [side, side, 3], 255 in channel 0 at the
    agent's cell and in channel 1 at the goal's, and `last`, the last action or 9, a Discrete that starts at 5. Each
    step costs 0.1; reaching the goal is worth 1 and ends the episode, which is truncated after 50 steps.
    """

    def __init__(self, side: int = 5) -> None:
        image = spaces.Box(0, 255, (side, side, 3), np.uint8)
        self.observation_space = spaces.Dict(image=image, last=spaces.Discrete(5, start=5))
        self.action_space = spaces.Discrete(4, start=5)
        self._side = side

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draws two different cells."""
        super().reset(seed=seed, options=options)
        cells = self.np_random.choice(self._side**2, 2, replace=False)
        self._cell, self._goal = ([*divmod(int(cell), self._side)] for cell in cells)
        self._last, self._steps = 9, 0
        return self._observe(), {"action_mask": self._mask()}

    def step(self, action: np.int64) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Moves one cell."""
        if not self._mask()[action - 5]:
            raise ValueError(f"action {action} leads into a wall")
        self._steps += 1
        self._last = int(action)
        self._cell[int(action % 2 == 0)] += 1 if action in (6, 7) else -1
        arrived = self._cell == self._goal
        reward = 1.0 if arrived else -0.1
        return self._observe(), reward, arrived, self._steps >= 50, {"action_mask": self._mask()}

    def _mask(self) -> NDArray[np.int8]:
        row, column = self._cell
        last = self._side - 1
        return np.array([row > 0, column < last, row < last, column > 0], np.int8)

    def _observe(self) -> dict[str, Any]:
        image = np.zeros((self._side, self._side, 3), np.uint8)
        image[(*self._cell, 0)] = image[(*self._goal, 1)] = 255
        return {"image": image, "last": self._last}


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
