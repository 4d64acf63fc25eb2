"""Converts a policy's actions to an environment's: numbers, arrays, or Dicts and Tuples of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.records import space_name
from headrace.errors import EnvironmentFault
from headrace.types import Array

__all__ = [
    "ActionMap",
    "ActionPart",
    "BranchActions",
    "ContinuousActions",
    "DiscreteActions",
    "action_parts",
    "read_actions",
]


class ActionMap(Protocol):
    """Converts a policy's actions to an environment's. Stateless: any thread may use it."""

    def to_environment(self, actions: Array) -> list[Any]:
        """B actions of a policy -> B actions for the environment's step()."""

    def to_batch(self, actions: Array) -> Any:
        """B actions of a policy -> those of B vectorized environments: arrays [B, ...], in the space's structure."""

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

    def to_batch(self, actions: Array) -> NDArray[np.int64]:
        """Actions [B] -> [B]."""
        own: NDArray[np.int64] = actions + self.start
        return own

    def from_record(self, record: Sequence[int]) -> NDArray[np.int64]:
        """T numbers -> [T]."""
        return np.asarray(record, np.int64)


@dataclass(frozen=True)
class ActionPart:
    """A Discrete space (with shape ()), MultiDiscrete or MultiBinary space at `path` in an action, () for the whole.

    `counts` and `start` are the number of values of each of its dimensions and the smallest one, in C order.
    """

    path: tuple[str | int, ...]
    counts: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str


class BranchActions:
    """Actions [B, D] int64 of a policy, from 0, for an environment whose actions have these discrete parts."""

    def __init__(self, parts: Sequence[ActionPart]) -> None:
        self._parts = parts
        self._start = np.array([start for part in parts for start in part.start], np.int64)
        self.branches: tuple[int, ...] = tuple(count for part in parts for count in part.counts)
        """Number of actions of each dimension, in C order."""

    def to_environment(self, actions: Array) -> list[Any]:
        """Actions [B, D] -> B of the space's arrays, or dicts and tuples of them; a Discrete part is a number."""
        values = self._values(actions)
        return [_assemble([(path, value[row]) for path, value in values]) for row in range(len(actions))]

    def to_batch(self, actions: Array) -> Any:
        """Actions [B, D] -> arrays [B, ...]."""
        return _assemble(self._values(actions))

    def from_record(self, record: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """T lists of D numbers -> [T, D]."""
        return np.asarray(record, np.int64).reshape(len(record), len(self.branches))

    def flatten_mask(self, mask: Any) -> Any:
        """A mask -> [A], or a batch of B -> [B, A]: those of all dimensions side by side.

        A mask has the structure of the action. That of a part is an array of the numbers of all its dimensions, or a
        tuple with an array for each, as in `space.sample(mask)`. Raises EnvironmentFault if a part has none, or one of
        another size.
        """
        masks: list[Array] = []
        for part in self._parts:
            name = "info['action_mask']" + "".join(f"[{key!r}]" for key in part.path)
            value = mask
            for key in part.path:
                try:
                    value = value[key]
                except (KeyError, IndexError, TypeError):
                    raise EnvironmentFault(f"{name} is missing; the action has this part") from None
            found = _arrays(value)
            sizes, whole, each = [array.shape[-1:] for array in found], sum(part.counts), list(part.counts)
            if sizes not in ([(whole,)], [(count,) for count in each]):
                shapes = " and ".join(str(array.shape) for array in found)
                tuple_of = f", or a tuple of {each} numbers," if len(each) > 1 else ""
                raise EnvironmentFault(f"{name} has shape {shapes}; {(whole,)}{tuple_of} is required of a mask")
            masks += found
        if len({array.shape[:-1] for array in masks}) > 1:
            shapes = ", ".join(str(array.shape) for array in masks)
            raise EnvironmentFault(
                f"info['action_mask'] has arrays of shapes {shapes}; one dimension is required of each"
            )
        return masks[0] if len(masks) == 1 else np.concatenate(masks, -1)

    def _values(self, actions: Array) -> list[tuple[tuple[str | int, ...], Array]]:
        """Path and values [B, *shape] of each part."""
        own, end = actions + self._start, 0
        values = []
        for part in self._parts:
            begin, end = end, end + prod(part.shape)
            values.append((part.path, own[:, begin:end].reshape(len(own), *part.shape).astype(part.dtype)))
        return values


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
        own = self.to_batch(actions)
        return [own[row, ...] for row in range(len(own))]  # with the dots, an array of shape () stays an array

    def to_batch(self, actions: Array) -> Array:
        """Actions [B, A], finite -> [B, *shape]."""
        scaled = actions * self._half_range
        scaled += self._middle
        np.maximum(scaled, self._low, out=scaled)
        np.minimum(scaled, self._high, out=scaled)
        return scaled.astype(self._dtype).reshape(len(scaled), *self._shape)

    def from_record(self, record: Sequence[Sequence[float]]) -> NDArray[np.float32]:
        """T lists of A numbers -> [T, A]."""
        return np.asarray(record, np.float32).reshape(len(record), self.dimensions)


def read_actions(space: spaces.Space[Any] | None, environment_id: str) -> ActionMap:
    """The conversion for an action space; raises EnvironmentFault if it is not supported."""
    if isinstance(space, spaces.Discrete):
        return DiscreteActions(int(space.start))
    if isinstance(space, spaces.Box):
        return ContinuousActions(*_bounds(space, environment_id))
    try:
        return BranchActions(action_parts(space))
    except EnvironmentFault as error:
        raise EnvironmentFault(f'environment "{environment_id}": {error}') from None


def action_parts(space: gymnasium.Space[Any] | None, path: tuple[str | int, ...] = ()) -> tuple[ActionPart, ...]:
    """The discrete parts of an action space, in its own order; raises EnvironmentFault if it has another part."""
    if isinstance(space, spaces.Tuple) and space.spaces:
        return tuple(part for index, each in enumerate(space.spaces) for part in action_parts(each, (*path, index)))
    if isinstance(space, spaces.Dict) and space.spaces and all(isinstance(key, str) for key in space.spaces):
        return tuple(part for key, each in space.spaces.items() for part in action_parts(each, (*path, key)))
    if isinstance(space, spaces.Discrete):
        return (ActionPart(path, (int(space.n),), (int(space.start),), (), np.dtype(space.dtype).name),)
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    if not isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary) or 0 in shape:
        if not path:
            raise EnvironmentFault(
                f"action space is {space_name(space)}; a Discrete, MultiDiscrete or MultiBinary space, a Dict or Tuple "
                "of these, or a Box is required"
            )
        name = "".join(f"[{key!r}]" for key in path)
        raise EnvironmentFault(
            f"action{name} has the space {space_name(space)}; a Discrete, MultiDiscrete or MultiBinary space is "
            "required of a part"
        )
    counts, start = np.full(shape, 2), np.zeros(shape, np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        counts, start = space.nvec, space.start
    numbers = tuple(counts.ravel().tolist()), tuple(start.ravel().tolist())
    return (ActionPart(path, *numbers, shape, np.dtype(space.dtype).name),)


def _assemble(values: Sequence[tuple[tuple[str | int, ...], Any]]) -> Any:
    """The value at path (), or the dict or tuple of those whose paths begin with its keys or numbers."""
    if not values[0][0]:
        return values[0][1]
    parts: dict[str | int, list[tuple[tuple[str | int, ...], Any]]] = {}
    for (key, *rest), value in values:
        parts.setdefault(key, []).append((tuple(rest), value))
    built: Mapping[str | int, Any] = {key: _assemble(part) for key, part in parts.items()}
    return built if isinstance(values[0][0][0], str) else tuple(built.values())


def _arrays(mask: Any) -> list[Array]:
    """The arrays of a mask that may be a tuple or list of these, of any depth; a list of numbers is one array."""
    if isinstance(mask, tuple | list) and any(isinstance(each, tuple | list | np.ndarray) for each in mask):
        return [array for each in mask for array in _arrays(each)]
    return [np.asarray(mask)]


def _bounds(action: spaces.Box, environment_id: str) -> tuple[Array, Array]:
    """Returns the bounds of continuous actions, each with the space's shape and dtype."""
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
