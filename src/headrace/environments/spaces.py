"""Converts an environment's spaces to a Spec, and a policy's actions to the environment's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.calls import calling
from headrace.environments.catalogue import make
from headrace.environments.records import MASK, Packer, space_name
from headrace.errors import EnvironmentFault
from headrace.types import Array, EnvironmentSpec, Part

__all__ = [
    "ActionMap",
    "BranchActions",
    "ContinuousActions",
    "DiscreteActions",
    "Spaces",
    "close",
    "describe",
    "first_reset",
    "read_spaces",
    "require_spec",
]


class ActionMap(Protocol):
    """Converts a policy's actions to an environment's. Stateless: any thread may use it."""

    def to_environment(self, actions: Array) -> list[Any]:
        """B actions of a policy -> B actions for the environment's step()."""

    def from_record(self, record: Sequence[Any]) -> Array:
        """T actions of a policy, each converted by tolist() -> the original array."""


@dataclass(frozen=True)
class DiscreteActions:
    """Actions 0..A-1 of a policy, [B] int64, for an environment whose actions begin at `start`."""

    start: int

    def to_environment(self, actions: Array) -> list[int]:
        """Actions [B] -> B numbers."""
        numbers: list[int] = actions.tolist()
        return [number + self.start for number in numbers] if self.start else numbers

    def from_record(self, record: Sequence[int]) -> NDArray[np.int64]:
        """T numbers -> [T]."""
        return np.asarray(record, np.int64)


class BranchActions:
    """Actions [B, D] int64 of a policy, from 0, for an environment with a MultiDiscrete or MultiBinary space."""

    def __init__(self, space: spaces.MultiDiscrete[Any] | spaces.MultiBinary) -> None:
        self._shape, self._dtype = tuple(space.shape), np.dtype(space.dtype)
        counts, start = np.full(self._shape, 2), np.zeros(self._shape, np.int64)
        if isinstance(space, spaces.MultiDiscrete):
            counts, start = space.nvec, space.start
        self._start = start.ravel()
        self.branches: tuple[int, ...] = tuple(counts.ravel().tolist())
        """Number of actions of each dimension, in C order."""

    def to_environment(self, actions: Array) -> list[Array]:
        """Actions [B, D] -> B arrays of the space's shape and dtype."""
        own = (actions + self._start).astype(self._dtype)
        return list(own.reshape(len(own), *self._shape))

    def from_record(self, record: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """T lists of D numbers -> [T, D]."""
        return np.asarray(record, np.int64).reshape(len(record), len(self.branches))


class ContinuousActions:
    """Actions [B, A] float32 of a policy, in [-1, 1], for an environment with actions from low to high, in C order.

    The map is linear, from low at -1 to high at 1; values outside are clipped. Computed in 64 bits.
    """

    def __init__(self, low: Array, high: Array) -> None:
        self._shape = low.shape
        self._dtype = low.dtype
        self._low = low.ravel().astype(np.float64)
        self._high = high.ravel().astype(np.float64)
        self._middle = self._low / 2 + self._high / 2  # halved first: the sum may overflow 64 bits
        self._half_range = self._high / 2 - self._low / 2

    @property
    def dimensions(self) -> int:
        """A."""
        return len(self._low)

    def to_environment(self, actions: Array) -> list[Array]:
        """Actions [B, A], finite -> B arrays of the space's shape and dtype."""
        scaled = actions * self._half_range
        scaled += self._middle
        np.maximum(scaled, self._low, out=scaled)
        np.minimum(scaled, self._high, out=scaled)
        own = scaled.astype(self._dtype).reshape(len(scaled), *self._shape)
        return [own[row, ...] for row in range(len(own))]  # with the dots, an array of shape () stays an array

    def from_record(self, record: Sequence[Sequence[float]]) -> NDArray[np.float32]:
        """T lists of A numbers -> [T, A]."""
        return np.asarray(record, np.float32).reshape(len(record), self.dimensions)


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
    """What the environment's reset() returns; raises EnvironmentFault for an exception."""
    place = f'environment "{environment_id}": its first reset()'
    try:
        with calling(place):
            return environment.reset()
    except EnvironmentFault:
        raise
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        raise EnvironmentFault(f"{place} raised {problem}") from error


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
            f'environment "{environment_id}" has {_in_words(found)} here, and {_in_words(expected)} on the learner\'s '
            "machine; the same versions of the environment and its dependencies are required"
        )


def _in_words(spec: EnvironmentSpec) -> str:
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
    action_map: ActionMap
    branches: tuple[int, ...] = ()
    if isinstance(action, spaces.Discrete):
        action_map = DiscreteActions(int(action.start))
        actions = int(action.n)
    elif isinstance(action, spaces.MultiDiscrete | spaces.MultiBinary) and 0 not in action.shape:
        action_map = BranchActions(action)
        branches = action_map.branches
        actions = sum(branches)
    else:
        action_map = ContinuousActions(*_bounds(action, environment_id))
        actions = action_map.dimensions
    discrete, continuous = isinstance(action, spaces.Discrete), isinstance(action, spaces.Box)
    mask = _mask(first)
    if mask is not None and not discrete:
        raise EnvironmentFault(
            f'environment "{environment_id}": info[{MASK!r}] is {mask!r:.60}, and the action space is '
            f"{space_name(action)}; a mask requires a Discrete space"
        )
    stack = _stack(environment, environment_id)
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
        packer = Packer(observation, mask, actions if discrete else 0)
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


def _stack(environment: gymnasium.Env[Any, Any], environment_id: str) -> int:
    """Returns K, which the environment's metadata may set."""
    stack = getattr(environment, "metadata", {}).get("stack", 1)
    if not isinstance(stack, int) or stack < 1:
        raise EnvironmentFault(
            f'environment "{environment_id}": metadata["stack"] is {stack!r:.60}; 1 or more is required'
        )
    return stack


def _bounds(action: spaces.Space[Any] | None, environment_id: str) -> tuple[Array, Array]:
    """Returns the bounds of continuous actions, each with the space's shape and dtype."""
    if not isinstance(action, spaces.Box):
        raise EnvironmentFault(
            f'environment "{environment_id}": action space is {space_name(action)}; '
            "a Discrete, MultiDiscrete or MultiBinary space or a Box is required"
        )
    dtype = np.dtype(action.dtype)
    if dtype.kind != "f":
        raise EnvironmentFault(
            f'environment "{environment_id}": action dtype is {dtype.name}; a float is required of a Box'
        )
    if 0 in action.shape:
        raise EnvironmentFault(f'environment "{environment_id}": action shape is {action.shape}; it must not be empty')
    for name, bound in (("low", action.low), ("high", action.high)):
        if not np.isfinite(bound).all():
            where = np.argwhere(~np.isfinite(bound))[0].tolist()
            raise EnvironmentFault(
                f'environment "{environment_id}": action_space.{name}{where or ""} is {bound[tuple(where)]}; '
                "every action needs finite bounds"
            )
    return action.low, action.high
