"""A task with a goal in its observation, like Gymnasium-Robotics' FetchReach, without a simulator."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Reach", "register"]

_STEP = 0.05
_RANGE = 0.15
_NEAR = 0.05
_LIMIT = 50


class Reach(gymnasium.Env[Any, NDArray[np.float32]]):
    """A gripper that moves to a goal in space, with the numbers of FetchReach (Plappert et al. 2018).

    The goal is up to 0.15 m from the gripper's first place in each dimension; actions, float32 [3] in [-1, 1], move it
    by up to 0.05 m in each. Observations are a Dict of its place and last movement ("observation", [6]), its place
    ("achieved_goal", [3]) and the goal ("desired_goal", [3]), in m. The reward is 0 within 0.05 m of the goal after the
    step, otherwise -1; an episode is truncated after 50 steps. The straight way is best, and worth -0.81 on average.
    """

    def __init__(self) -> None:
        place = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        state = spaces.Box(-np.inf, np.inf, (6,), np.float64)
        self.observation_space = spaces.Dict(achieved_goal=place, desired_goal=place, observation=state)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Draws the goal; the gripper begins at the origin."""
        super().reset(seed=seed, options=options)
        self._place, self._movement = np.zeros(3), np.zeros(3)
        self._goal = self.np_random.uniform(-_RANGE, _RANGE, 3)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Moves the gripper."""
        self._steps += 1
        self._movement = _STEP * np.clip(action, -1, 1).astype(np.float64)
        self._place = self._place + self._movement
        near = bool(np.linalg.norm(self._place - self._goal) <= _NEAR)
        return self._observe(), 0.0 if near else -1.0, False, self._steps >= _LIMIT, {"is_success": near}

    def _observe(self) -> dict[str, Array]:
        state = np.concatenate([self._place, self._movement])
        return {"achieved_goal": self._place, "desired_goal": self._goal, "observation": state}


def register() -> None:
    """Registers it with Gymnasium: headrace/Reach-v0."""
    gymnasium.register("headrace/Reach-v0", f"{Reach.__module__}:Reach")
