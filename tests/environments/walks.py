"""Environments that check their actions; Walk's episodes depend on its number and its actions alone."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs import registration
from gymnasium.vector import AutoresetMode, SyncVectorEnv

MODES = list(AutoresetMode)
_numbers = itertools.count()


class Walk(gymnasium.Env[Any, Any]):
    """Actions 2, 3 and 4 move by -1, 0 and 1; one of them is illegal, and raises: it depends on place and steps.

    Environment i begins its episode e at place 1 + (i + e) % 4. It terminates at places 0 and 5 and is truncated after
    5 steps. The reward is the place.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(place=spaces.Box(-9, 9, (1,)), steps=spaces.Discrete(6))
        self.action_space = spaces.Discrete(3, start=2)
        self.number = next(_numbers)
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.place, self.steps = 1 + (self.number + self.episode) % 4, 0
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, info = self._observe()
        assert info["action_mask"][action - 2], (self.place, action)
        self.place, self.steps = self.place + int(action) - 3, self.steps + 1
        terminated = self.place in (0, 5)
        observation, info = self._observe()
        return observation, float(self.place), terminated, not terminated and self.steps == 5, info

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        mask = np.array([(self.place + self.steps) % 3 != move for move in range(3)], np.int8)
        return {"place": np.array([self.place], np.float32), "steps": self.steps}, {"action_mask": mask}


class Crane(gymnasium.Env[Any, Any]):
    """Actions are a Dict of "grip", 0 or 1, and "move", a Tuple of -1 to 1 and one bit; the observation shows one.

    Each part that is as shown is worth 1, and an episode is truncated after 5 steps: 15 is the most. The mask leaves
    out one value of each part at most, never the one that is shown; it raises.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (3,))
        move = spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiBinary(1)])
        self.action_space = spaces.Dict(grip=spaces.Discrete(2), move=move)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        chosen = [int(action["grip"]), int(action["move"][0]) + 1, int(action["move"][1][0])]
        assert all(mask[number] for mask, number in zip(self.masks, chosen, strict=True)), (self.masks, action)
        reward = float(sum(number == right for number, right in zip(chosen, self.shown, strict=True)))
        self.steps += 1
        observation, info = self._observe()
        return observation, reward, False, self.steps == 5, info

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        self.shown = self.np_random.integers([2, 3, 2])
        self.masks = [np.ones(count, np.int8) for count in (2, 3, 2)]
        for mask, shown in zip(self.masks, self.shown, strict=True):
            left_out = self.np_random.integers(len(mask))
            mask[left_out] = left_out == shown
        grip, *move = self.masks
        return (self.shown - [0, 1, 0]).astype(np.float32), {"action_mask": {"grip": grip, "move": tuple(move)}}


def restart_numbers() -> None:
    """The next environment is number 0."""
    global _numbers  # noqa: PLW0603
    _numbers = itertools.count()


def vectorized(count: int, mode: AutoresetMode, kind: type[gymnasium.Env[Any, Any]] = Walk) -> SyncVectorEnv:
    """Several environments as a VectorEnv."""
    return SyncVectorEnv([kind] * count, autoreset_mode=mode)


def register(monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode, kind: type[gymnasium.Env[Any, Any]] = Walk) -> str:
    """Registers environments with a vector entry point, for one test -> the id of single ones."""
    name = f"tests/{kind.__name__}-v0"
    spec = registration.EnvSpec(name, kind, vector_entry_point=lambda num_envs: vectorized(num_envs, mode, kind))
    monkeypatch.setitem(gymnasium.registry, name, spec)
    return name
