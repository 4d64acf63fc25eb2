"""Converts an environment's spaces to a Spec."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from headrace.environments.actions import ActionMap, BranchActions, ContinuousActions, read_actions
from headrace.environments.calls import calling
from headrace.environments.catalogue import make
from headrace.environments.records import MASK, Packer, space_name
from headrace.errors import EnvironmentFault, error_line
from headrace.types import EnvironmentSpec, Part

__all__ = ["Spaces", "close", "convert_spaces", "describe", "first_reset", "in_words", "read_spaces", "require_spec"]


class Spaces(NamedTuple):
    """An environment's spaces, and the conversions between its and the agent's observations and actions."""

    spec: EnvironmentSpec
    actions: ActionMap
    packer: Packer | None = None
    """Packs observations into records; None if an observation is one array of numbers."""


def describe(environment_id: str) -> EnvironmentSpec:
    """Creates the environment, reads its spaces and closes it; raises EnvironmentFault if they are not supported.

    The environment is reset once, since the `info` of a reset says whether there are action masks.
    """
    environment = make(environment_id)
    try:
        return read_spaces(environment, environment_id, first_reset(environment, environment_id)).spec
    finally:
        close(environment, environment_id)


def first_reset(environment: gymnasium.Env[Any, Any], environment_id: str) -> object:
    """What reset() returns with a seed, which actors always give; raises EnvironmentFault for an exception."""
    place = f'environment "{environment_id}": its first reset(seed=0)'
    try:
        with calling(place):
            return environment.reset(seed=0)
    except EnvironmentFault:
        raise
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        raise EnvironmentFault(f"{place} raised {error_line(error)}") from error


def close(environment: gymnasium.Env[Any, Any], environment_id: str) -> None:
    """Closes an environment that is no longer needed; ignores all errors except a watch's EnvironmentFault."""
    try:
        with calling(f'environment "{environment_id}": its close()'):
            environment.close()
    except EnvironmentFault:
        raise
    except Exception:
        return


def require_spec(environment_id: str, found: EnvironmentSpec, expected: EnvironmentSpec) -> None:
    """Raises EnvironmentFault if this machine's environment differs from the learner's."""
    if found != expected:
        raise EnvironmentFault(
            f'environment "{environment_id}" has {in_words(found)} here, and {in_words(expected)} for the learner; the '
            "same versions of the environment and its dependencies are required on all machines, and the same spaces "
            "and metadata of a vectorized environment and a single one"
        )


def in_words(spec: EnvironmentSpec) -> str:
    """Describes a spec in words."""
    actions = f"{spec.actions} {'continuous' if spec.continuous else 'discrete'} actions"
    if spec.branches:
        actions = f"actions with {list(spec.branches)} values"
    stack = f" x {spec.stack} frames" if spec.stack > 1 else ""
    parts = ", ".join(f"{part.name} {part.dtype} {list(part.shape)}{_range(part)}" for part in spec.parts)
    observations = parts or f"{spec.observation_dtype} {list(spec.observation_shape)}{stack}"
    return f"observations {observations} and {actions}"


def _range(part: Part) -> str:
    """The categories of a part in words."""
    return f" of {list(part.categories)} categories from {list(part.start)}" if part.categories else ""


def read_spaces(environment: gymnasium.Env[Any, Any], environment_id: str, first: object = None) -> Spaces:
    """Reads an environment's spaces; `first` is what its first reset() returned, whose info may have an action mask."""
    observation = getattr(environment, "observation_space", None)
    action = getattr(environment, "action_space", None)
    metadata = getattr(environment, "metadata", {})
    return convert_spaces(observation, action, metadata, environment_id, first)


def convert_spaces(
    observation: spaces.Space[Any] | None,
    action: spaces.Space[Any] | None,
    metadata: Mapping[str, Any],
    environment_id: str,
    first: object,
) -> Spaces:
    """The spaces of one environment; see read_spaces()."""
    action_map = read_actions(action, environment_id)
    continuous = isinstance(action_map, ContinuousActions)
    parted = action_map if isinstance(action_map, BranchActions) else None
    branches = parted.branches if parted else ()
    if isinstance(action, spaces.Discrete):
        actions = int(action.n)
    else:
        actions = action_map.dimensions if isinstance(action_map, ContinuousActions) else sum(branches)
    mask = _mask(first)
    if mask is not None and continuous:
        raise EnvironmentFault(
            f'environment "{environment_id}": info[{MASK!r}] is {mask!r:.60}, and the action space is '
            f"{space_name(action)}; a mask requires discrete actions"
        )
    stack = _stack(metadata, environment_id)
    if isinstance(observation, spaces.Box) and mask is None:
        shape, dtype = _array(observation, environment_id)
        return Spaces(EnvironmentSpec(shape, dtype, actions, stack, continuous, branches=branches), action_map)
    if observation is None:
        raise EnvironmentFault(f'environment "{environment_id}": observation space is missing')
    if stack > 1:
        raise EnvironmentFault(
            f'environment "{environment_id}": metadata["stack"] is {stack}; 1 is required of observations with parts '
            "or action masks"
        )
    try:
        packer = Packer(observation, mask, 0 if continuous else actions, parted)
    except EnvironmentFault as error:
        raise EnvironmentFault(f'environment "{environment_id}": {error}') from error
    spec = EnvironmentSpec(
        (packer.record_bytes,),
        "uint8",
        actions,
        continuous=continuous,
        parts=packer.parts,
        masked=packer.masked,
        branches=branches,
    )
    return Spaces(spec, action_map, packer)


def _mask(first: object) -> Any:
    """The action mask in the result of a reset(), if there is one; the caller checks the result."""
    info = first[1] if isinstance(first, tuple) and len(first) == 2 else None
    return info.get(MASK) if isinstance(info, Mapping) else None


def _array(space: spaces.Box, environment_id: str) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of observations that are one array."""
    if 0 in space.shape:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation shape is {space.shape}; it must not be empty'
        )
    dtype = np.dtype(space.dtype)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation dtype is {dtype.name}; '
            "bool, an integer or a float of at most 64 bits is required"
        )
    return tuple(space.shape), dtype.name


def _stack(metadata: Mapping[str, Any], environment_id: str) -> int:
    """Returns K, which the environment's metadata may set."""
    stack = metadata.get("stack", 1)
    if not isinstance(stack, int) or stack < 1:
        raise EnvironmentFault(
            f'environment "{environment_id}": metadata["stack"] is {stack!r:.60}; 1 or more is required'
        )
    return stack
