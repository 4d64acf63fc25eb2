"""Stores observations of any space, and action masks, as records of bytes."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.base import cast
from headrace.errors import EnvironmentFault
from headrace.types import Array, Part

if TYPE_CHECKING:
    from headrace.environments.actions import BranchActions

__all__ = ["FLOAT32_MAX", "MASK", "Packer", "finite_float32", "row_of", "space_name"]

MASK = "action_mask"
"""Key of the mask in `info`, as in Gymnasium's Taxi and in PettingZoo, or in a Dict observation."""
_ALIGNMENT = 8
FLOAT32_MAX = float(np.finfo(np.float32).max)


class _Slot(NamedTuple):
    """Where a part's value is in an observation, and which integers it may have; None: any."""

    part: Part
    path: tuple[str | int, ...]
    label: str
    """The part as a user would write it."""
    low: Array | None = None
    high: Array | None = None
    dtype: np.dtype[Any] = np.dtype(np.uint8)
    place: slice = slice(0)
    """The part's bytes in a record."""

    def at(self, offset: int) -> "_Slot":
        """The slot of a part that begins at the next multiple of its item size."""
        dtype = np.dtype(self.part.dtype)
        begin = -(-offset // dtype.itemsize) * dtype.itemsize
        place = slice(begin, begin + dtype.itemsize * prod(self.part.shape))
        return self._replace(part=replace(self.part, offset=begin), dtype=dtype, place=place)


class Packer:
    """Packs observations of one space, and action masks, into records uint8 [R]. Stateless: any thread may use it.

    Each part begins at a multiple of its item size, and R is a multiple of 8. The mask, if there is one, is the last
    part: the observation's own key "action_mask", or else `info["action_mask"]`. Raises EnvironmentFault, whose message
    names the field, for a space that is not supported.
    """

    def __init__(
        self, space: spaces.Space[Any], mask: Any, actions: int, parted: "BranchActions | None" = None
    ) -> None:
        """`mask` is that of the first reset, or None; `actions` is A, or 0 if actions are not discrete.

        `parted` converts actions that have several dimensions.
        """
        slots = _slots(space, ())
        nested = [slot.label for slot in slots if actions and len(slot.path) > 1 and slot.path[0] == MASK]
        if nested:
            raise EnvironmentFault(
                f"observation[{MASK!r}] has parts, such as {nested[0]}; one array {(actions,)}, or a mask in info "
                "instead, is required"
            )
        own = [_as_mask(slot) for slot in slots if actions and slot.path == (MASK,)]
        slots = [slot for slot in slots if not own or slot.path != (MASK,)] + own
        self.masked = bool(own) or mask is not None
        self._in_info = mask is not None and not own
        if self._in_info:
            bound = np.ones((actions,), np.int8)
            slots.append(_Slot(Part(MASK, "int8", (actions,), 0), (MASK,), f"info[{MASK!r}]", 0 * bound, bound))
        names = [slot.part.name for slot in slots]
        if not slots or len(set(names)) < len(names):
            raise EnvironmentFault(f"observation has the parts {names}; one or more with different names are required")
        if own and own[0].part.shape != (actions,):
            raise EnvironmentFault(f"{own[0].label} has shape {own[0].part.shape}; {(actions,)} is required of a mask")
        self._actions = actions
        self._parted = parted
        self._branch_starts = None if parted is None else np.cumsum([0, *parted.branches[:-1]]).tolist()
        self._slots: list[_Slot] = []
        end = 0
        for slot in slots:
            self._slots.append(slot.at(end))
            end = self._slots[-1].place.stop
        self.record_bytes = -(-end // _ALIGNMENT) * _ALIGNMENT

    @property
    def parts(self) -> tuple[Part, ...]:
        """The record's parts, in the order of their offsets."""
        return tuple(slot.part for slot in self._slots)

    def pack(self, observation: Any, info: Any, out: Array, *, final: bool) -> None:
        """Writes a record to `out`, uint8 [R]; raises EnvironmentFault, which names the field, for an invalid value.

        `final`: the observation terminates its episode, so no action follows and any mask will do.
        """
        mask = info.get(MASK) if isinstance(info, Mapping) else None
        if self._in_info and mask is None and not final:
            raise EnvironmentFault(f"info[{MASK!r}] is missing; the first reset had one, so every step must")
        self._write(observation, mask, out, np.asarray(final))

    def pack_batch(self, observation: Any, info: Mapping[str, Any], out: Array, final: NDArray[np.bool_]) -> None:
        """Writes the records [E, R] of a vectorized environment; raises EnvironmentFault for any invalid value."""
        mask = info.get(MASK)
        if self._in_info and mask is None:
            raise EnvironmentFault(f"info[{MASK!r}] is missing; the first reset had one, so every step must")
        self._write(observation, mask, out, final)

    def _write(self, observation: Any, mask: Any, out: Array, final: NDArray[np.bool_]) -> None:
        """Writes records [*L, R], where `final` is [*L]."""
        out[:] = 0
        for slot in self._slots[: len(self._slots) - self._in_info]:
            _write(slot, _find(slot, observation), out)
        if not self.masked:
            return
        slot = self._slots[-1]
        if self._in_info and mask is not None:
            _write(slot, mask if self._parted is None else self._parted.flatten_mask(mask), out)
        written, starts = out[..., slot.place], self._branch_starts
        legal = written.any(-1) if starts is None else np.logical_or.reduceat(written, starts, axis=-1).all(-1)
        if legal.all():
            return
        if not (legal | final).all():
            dimension = "" if self._parted is None else " of each dimension"
            raise EnvironmentFault(
                f"{slot.label} has no legal action; at least one{dimension} of its {self._actions} must be 1"
            )
        out[final & ~legal, slot.place] = 1


def finite_float32(values: Array) -> NDArray[np.bool_]:
    """Whether each float is finite as float32, as networks see it."""
    finite: NDArray[np.bool_] = np.isfinite(values) if values.dtype.itemsize <= 4 else np.abs(values) <= FLOAT32_MAX
    return finite


def space_name(space: spaces.Space[Any] | None) -> str:
    """Names a space in one line: a Box would print its bounds, which may be images."""
    if space is None:
        return "missing"
    kind = type(space).__name__
    return kind if space.shape is None else f"{kind} of shape {tuple(space.shape)}"


def row_of(values: Any, index: int) -> Any:
    """One environment's observation or info in those of all, or in an array of objects with those of some."""
    if isinstance(values, Mapping):
        return {key: row_of(value, index) for key, value in values.items()}
    return tuple(row_of(value, index) for value in values) if isinstance(values, tuple) else values[index]


def _slots(space: spaces.Space[Any], path: tuple[str | int, ...]) -> list[_Slot]:
    """The parts of a space, in its own order; their offsets are 0."""
    if isinstance(space, spaces.Dict):
        return [slot for key, part in space.spaces.items() for slot in _slots(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [slot for index, part in enumerate(space.spaces) for slot in _slots(part, (*path, index))]
    label = "observation" + "".join(f"[{key!r}]" for key in path)
    slot = _Slot(Part(".".join(map(str, ("observation", *path))), "", (), 0), path, label)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        shape = tuple(space.shape or ())
        count = np.asarray(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        start = np.asarray(space.start)
        categories = tuple(count.ravel().tolist())
        part = replace(
            slot.part,
            dtype=np.dtype(space.dtype).name,
            shape=shape,
            categories=categories,
            start=tuple(start.ravel().tolist()),
        )
        return [_Slot(part, path, label, start, start + count.astype(np.int64) - 1)]
    if not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise EnvironmentFault(
            f"{slot.label} has the space {space_name(space)}; a Box, Discrete, MultiDiscrete or MultiBinary, or a Dict "
            "or Tuple of these, is required (gymnasium.wrappers.FilterObservation leaves out a key of a Dict, in a "
            "package.module:factory of your own)"
        )
    dtype = np.dtype(space.dtype)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise EnvironmentFault(
            f"{slot.label} has dtype {dtype.name}; bool, an integer or a float of at most 64 bits is required"
        )
    if 0 in space.shape:
        raise EnvironmentFault(f"{slot.label} has shape {space.shape}; it must not be empty")
    part = replace(slot.part, dtype=dtype.name, shape=tuple(space.shape))
    if isinstance(space, spaces.Box):
        return [_Slot(part, path, label)]
    return [_Slot(part, path, label, np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8))]


def _as_mask(slot: _Slot) -> _Slot:
    """The slot of numbers that are 0 or 1, stored as int8."""
    if np.dtype(slot.part.dtype).kind not in "biu":
        raise EnvironmentFault(f"{slot.label} has dtype {slot.part.dtype}; bool or an integer is required of a mask")
    zeros = np.zeros(slot.part.shape, np.int8)
    part = replace(slot.part, dtype="int8", categories=(), start=())
    return slot._replace(part=part, low=zeros, high=zeros + 1)


def _find(slot: _Slot, observation: Any) -> Any:
    value = observation
    for key in slot.path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            raise EnvironmentFault(f"{slot.label} is missing; its space declares it") from None
    return value


def _write(slot: _Slot, value: Any, out: Array) -> None:
    """Writes the values [*L, *shape] of a part to records [*L, R]."""
    part, label, dtype = slot.part, slot.label, slot.dtype
    try:
        array = np.asarray(value)
    except ValueError:
        shown = " ".join(repr(value).split())
        raise EnvironmentFault(f"{label} is {shown:.60}; its space declares {part.dtype} {part.shape}") from None
    whole = slot.low is not None and array.dtype.kind in "biu"  # in range, so that any integer type will do
    stored = array if whole else cast(label, array, dtype)
    shape = (*out.shape[:-1], *part.shape)
    if array.shape != shape:
        raise EnvironmentFault(f"{label} has shape {array.shape}; its space declares {part.shape}")
    if slot.low is not None:
        _require_range(label, array, slot.low, slot.high)
    elif dtype.kind == "f":
        finite = finite_float32(stored)
        if not finite.all():
            where = np.argwhere(~finite)[0].tolist()
            raise EnvironmentFault(
                f"{label}{where or ''} is {stored[tuple(where)]}; every value must be finite as float32"
            )
    out[..., slot.place].view(dtype)[:] = stored.reshape(*shape[: out.ndim - 1], -1)


def _require_range(label: str, array: Array, low: Array, high: Array | None) -> None:
    outside = (array < low) | (array > high)
    if outside.any():
        where = np.argwhere(outside)[0].tolist()
        place = tuple(where)
        assert high is not None
        least, most = (np.broadcast_to(bound, array.shape)[place] for bound in (low, high))  # array may be a batch
        raise EnvironmentFault(f"{label}{where or ''} is {array[place]}; {least} to {most} is required by its space")
