"""Converts an environment's spaces to a Spec, and a policy's actions to the environment's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.calls import calling
from headrace.environments.catalogue import make
from headrace.errors import EnvironmentFault
from headrace.types import Array, EnvironmentSpec

__all__ = ["ActionMap", "ContinuousActions", "DiscreteActions", "close", "describe", "read_spaces", "require_spec"]


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


def describe(environment_id: str) -> EnvironmentSpec:
    """Creates the environment, reads its spaces and closes it; raises EnvironmentFault if they are not supported."""
    environment = make(environment_id)
    try:
        return read_spaces(environment, environment_id)[0]
    finally:
        close(environment, environment_id)


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
    stack = f" x {spec.stack} frames" if spec.stack > 1 else ""
    return f"observations {spec.observation_dtype} {list(spec.observation_shape)}{stack} and {actions}"


def read_spaces(environment: gymnasium.Env[Any, Any], environment_id: str) -> tuple[EnvironmentSpec, ActionMap]:
    """Returns the spec and the conversion from the policy's actions to the environment's."""
    observation = getattr(environment, "observation_space", None)
    action = getattr(environment, "action_space", None)
    if not isinstance(observation, spaces.Box):
        raise EnvironmentFault(
            f'environment "{environment_id}": observation space is {_name(observation)}; a Box is required '
            "(gymnasium.wrappers.FlattenObservation makes one, in a package.module:factory of your own)"
        )
    if 0 in observation.shape:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation shape is {observation.shape}; it must not be empty'
        )
    dtype = np.dtype(observation.dtype)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise EnvironmentFault(
            f'environment "{environment_id}": observation dtype is {dtype.name}; '
            "bool, an integer or a float of at most 64 bits is required"
        )
    action_map: ActionMap
    if isinstance(action, spaces.Discrete):
        action_map = DiscreteActions(int(action.start))
        actions = int(action.n)
    else:
        action_map = ContinuousActions(*_bounds(action, environment_id))
        actions = action_map.dimensions
    spec = EnvironmentSpec(
        observation_shape=tuple(observation.shape),
        observation_dtype=dtype.name,
        actions=actions,
        stack=_stack(environment, environment_id),
        continuous=isinstance(action, spaces.Box),
    )
    return spec, action_map


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
            f'environment "{environment_id}": action space is {_name(action)}; a Discrete space or a Box is required'
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


def _name(space: spaces.Space[Any] | None) -> str:
    """Names a space in one line: a Box would print its bounds, which may be images."""
    if space is None:
        return "missing"
    kind = type(space).__name__
    return kind if space.shape is None else f"{kind} of shape {tuple(space.shape)}"
