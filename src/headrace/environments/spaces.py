"""From an environment's spaces to what an agent must know of them."""

import contextlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from headrace.environments import atari
from headrace.environments.catalogue import make
from headrace.errors import EnvironmentFault
from headrace.types import EnvironmentSpec

__all__ = ["describe", "read_spaces"]


def describe(environment_id: str) -> EnvironmentSpec:
    """Makes the environment, reads its spaces and closes it; raises EnvironmentFault where they are not supported."""
    environment = make(environment_id)
    try:
        return read_spaces(environment, environment_id)[0]
    finally:
        with contextlib.suppress(Exception):  # it is not the one that will be used
            environment.close()


def read_spaces(environment: gymnasium.Env[Any, Any], environment_id: str) -> tuple[EnvironmentSpec, int]:
    """Gives the spec and the number of the environment's first action, which a policy's action 0 stands for."""
    observation = getattr(environment, "observation_space", None)
    action = getattr(environment, "action_space", None)
    if not isinstance(observation, spaces.Box):
        raise EnvironmentFault(
            f'environment "{environment_id}": observation space is {_name(observation)}; a Box is required '
            "(gymnasium.wrappers.FlattenObservation makes one, in a package.module:factory of your own)"
        )
    if 0 in observation.shape:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation shape is {observation.shape}; it must hold something'
        )
    dtype = np.dtype(observation.dtype)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation dtype is {dtype.name}; '
            "bool, an integer or a float of at most 64 bits is required"
        )
    if isinstance(action, spaces.Box):
        raise EnvironmentFault(
            f'environment "{environment_id}": action space is {_name(action)}, continuous; '
            "DQN needs discrete actions (a Discrete space)"
        )
    if not isinstance(action, spaces.Discrete):
        raise EnvironmentFault(
            f'environment "{environment_id}": action space is {_name(action)}; a Discrete space is required'
        )
    spec = EnvironmentSpec(
        observation_shape=tuple(observation.shape),
        observation_dtype=dtype.name,
        actions=int(action.n),
        stack=atari.STACK if atari.is_atari(environment_id) else 1,
    )
    return spec, int(action.start)


def _name(space: spaces.Space[Any] | None) -> str:
    """Names a space in one line: a Box would print its bounds, which may be whole images."""
    if space is None:
        return "missing"
    kind = type(space).__name__
    return kind if space.shape is None else f"{kind} of shape {tuple(space.shape)}"
