"""MinAtar's games (Young, Tian 2019): "minatar/breakout"."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.base import Suite
from headrace.errors import EnvironmentFault
from headrace.types import EnvironmentDefaults, Sizing

__all__ = ["MinAtar"]

_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_DEFAULTS = {
    "minatar/...": EnvironmentDefaults(
        "dqn", Sizing(), "every minatar/... game; an episode of freeway lasts 2,500 steps"
    ),
}


class MinAtar(Suite):
    """The five games with their minimal sets of actions, sticky actions (0.1) and ramping difficulty."""

    prefix = "minatar/"
    packages = "MinAtar"
    modules = ("minatar",)
    requirement = "headrace[minatar]"
    defaults = _DEFAULTS

    def names(self) -> Sequence[str]:
        """Names of the games."""
        return [self.prefix + game for game in _GAMES]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates a game."""
        if render_mode is not None:
            raise EnvironmentFault(f'environment "{name}": render_mode is "{render_mode}"; it has none')
        return _Game(name.removeprefix(self.prefix))


class _Game(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """One game. An observation is uint8 [C, 10, 10], 255 where an object of each of C kinds is: a board for a CNN."""

    def __init__(self, game: str) -> None:
        from minatar import Environment

        self._game = Environment(game)
        self._actions = self._game.minimal_action_set()
        self.action_space = spaces.Discrete(len(self._actions))
        rows, columns, kinds = self._game.state_shape()
        self.observation_space = spaces.Box(0, 255, (kinds, rows, columns), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Starts the episode of `seed` (32 bits), or the generator's next one without a seed."""
        if seed is not None:
            self._game.seed(seed)
            self._game.last_action = 0
        self._game.reset()
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """One frame; the game repeats the last action instead with probability 0.1."""
        reward, ended = self._game.act(self._actions[action])
        return self._observation(), float(reward), bool(ended), False, {}

    def _observation(self) -> NDArray[np.uint8]:
        present = np.moveaxis(self._game.state(), -1, 0)
        return np.ascontiguousarray(present, np.uint8) * np.uint8(255)
