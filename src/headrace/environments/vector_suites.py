"""Suites of vectorized environments: Gymnasium's vector entry points, and EnvPool."""

import re
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from headrace.environments.base import VectorSuite
from headrace.environments.records import row_of
from headrace.errors import EnvironmentFault
from headrace.types import Array

__all__ = ["EnvPool", "VectorEntryPoints"]


class VectorEntryPoints(VectorSuite):
    """The environments of Gymnasium's registry that have a vector entry point: "vector/CartPole-v1"."""

    prefix = "vector/"

    def load(self, environment_id: str) -> None:
        """Raises EnvironmentFault if the environment is registered without a vector entry point."""
        name = environment_id.rpartition(":")[2].removeprefix(self.prefix)
        versions = [key for key in gymnasium.registry if re.fullmatch(f"{re.escape(name)}(-v[0-9]+)?", key)]
        if versions and not any(gymnasium.registry[key].vector_entry_point for key in versions):
            raise EnvironmentFault(
                f'environment "{environment_id}": {versions[-1]} has no vector entry point, which {self.prefix} '
                f"requires; train {versions[-1]}"
            )

    def names(self) -> list[str]:
        """Ids of all environments with a vector entry point."""
        return [f"{self.prefix}{spec.id}" for spec in gymnasium.registry.values() if spec.vector_entry_point]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates the environment of the same id."""
        options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
        return gymnasium.make(name.removeprefix(self.prefix), disable_env_checker=True, **options)

    def make_vector(self, name: str, count: int, seed: int) -> VectorEnv[Any, Any, Any]:
        """Creates environments by the entry point, which also limits their episodes."""
        return gymnasium.make_vec(name.removeprefix(self.prefix), count, vectorization_mode="vector_entry_point")


class EnvPool(VectorSuite):
    """EnvPool's environments by its ids (Weng et al. 2022), such as "envpool/CartPole-v1" or "envpool/Pong-v5".

    They run in EnvPool's threads. Each has its own seed, and is reset by the step after its episode.
    """

    prefix = "envpool/"
    packages = "EnvPool"
    modules = ("envpool",)
    requirement = "headrace[envpool]"

    def names(self) -> list[str]:
        """Ids of all environments."""
        import envpool

        return [self.prefix + name for name in envpool.list_all_envs()]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates a pool of one environment."""
        options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
        return _Single(self._make_pool(name, 1, 0, **options))

    def make_vector(self, name: str, count: int, seed: int) -> VectorEnv[Any, Any, Any]:
        """Creates a pool."""
        return self._make_pool(name, count, seed)

    def _make_pool(self, name: str, count: int, seed: int, **options: Any) -> VectorEnv[Any, Any, Any]:
        import envpool

        seeds = (np.random.SeedSequence(seed).generate_state(count) >> 1).tolist()
        pool: Any = envpool.make_gymnasium(name.removeprefix(self.prefix), num_envs=count, seed=seeds, **options)
        with warnings.catch_warnings():  # it rounds bounds to float32 when it creates the spaces
            warnings.simplefilter("ignore")
            _ = pool.observation_space, pool.action_space
        return _Seeded(pool)


class _Seeded(VectorWrapper):
    """A pool, which warns of seeds: it got them from its constructor."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(options=options)


class _Single(gymnasium.Env[Any, Any]):
    """The only environment of a VectorEnv, which must be reset after each episode."""

    def __init__(self, vector: VectorEnv[Any, Any, Any]) -> None:
        self._vector = vector
        self.metadata = {key: vector.metadata[key] for key in ("render_modes", "render_fps") if key in vector.metadata}
        self.observation_space, self.action_space = vector.single_observation_space, vector.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._vector.reset(seed=seed)
        return row_of(observation, 0), row_of(info, 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._vector.step(np.asarray([action]))
        return row_of(observation, 0), float(reward[0]), bool(terminated[0]), bool(truncated[0]), row_of(info, 0)

    def render(self) -> Array:
        frames: Any = self._vector.render()
        frame: Array = frames[0]
        return frame

    def close(self) -> None:
        self._vector.close()
