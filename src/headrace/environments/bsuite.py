"""Experiments of bsuite (Osband et al. 2020), each with the settings of its sweep: "bsuite/deep_sea/3"."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.base import Suite
from headrace.errors import EnvironmentFault

__all__ = ["BSuite", "Experiment"]


class BSuite(Suite):
    """All experiments but those on MNIST, whose images would have to be downloaded."""

    prefix = "bsuite/"
    packages = "bsuite"
    modules = ("bsuite",)
    requirement = "headrace[bsuite]"

    def names(self) -> Sequence[str]:
        """Names as in bsuite: an experiment and the number of a setting."""
        from bsuite import sweep

        return [self.prefix + name for name in sweep.SWEEP if not name.startswith("mnist")]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates an experiment."""
        if render_mode is not None:
            raise EnvironmentFault(f'environment "{name}": render_mode is "{render_mode}"; it has none')
        return Experiment(name)


class Experiment(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One experiment; `task` is bsuite's environment. Observations are flattened to float32 [n]."""

    def __init__(self, name: str) -> None:
        from bsuite import bsuite, sweep

        identity = name.removeprefix(BSuite.prefix)
        self.task = bsuite.load(identity.partition("/")[0], sweep.SETTINGS[identity])
        self.action_space = spaces.Discrete(self.task.action_spec().num_values)
        size = int(np.prod(self.task.observation_spec().shape))
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self._generators = _generators(self.task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts the episode of `seed` (32 bits), or the generators' next one without a seed."""
        if seed is not None:  # noise must not be what the environment draws
            for layer, generator in enumerate(reversed(self._generators)):
                generator.seed([seed, layer] if layer else seed)
        return self._flatten(self.task.reset().observation), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one step. The end of an episode is part of the experiment, a limit of time too: it terminates."""
        step = self.task.step(int(action))
        return self._flatten(step.observation), float(step.reward), step.last(), False, {}

    def _flatten(self, observation: Any) -> NDArray[np.float32]:
        return np.array(observation, np.float32).reshape(-1)


def _generators(task: Any) -> list[np.random.RandomState]:
    """The generators of an environment and then of those that it wraps, which draw what happens in an episode."""
    layers = []
    while task is not None:
        layers.append(vars(task))
        task = layers[-1].get("_env")
    return [layer["_rng"] for layer in layers if "_rng" in layer]
