"""The contracts of a batch of environments, and of a suite: a family of environments whose names share a prefix."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from headrace.errors import CheckpointError, ConfigError, EnvironmentFault
from headrace.types import Array, EnvironmentDefaults, EnvironmentSpec, EnvironmentStep

__all__ = [
    "EnvironmentBatch",
    "Episode",
    "OpenEpisode",
    "Suite",
    "VectorSuite",
    "cast",
    "episode_seed",
    "read_array",
    "read_flag",
    "read_reward",
]

_NUMBERS = (float, int, np.floating)


class Episode(NamedTuple):
    """A finished episode of environment number `environment`; `return_` is of unclipped rewards."""

    environment: int  # counted from the batch's first_index
    return_: float
    length: int
    terminated: bool


class OpenEpisode(NamedTuple):
    """The open episode of one environment after T steps: `frames[t + 1]` is the observation after `action[t]`."""

    frames: Array  # [T+1, *O]
    action: Array  # [T] int64, [T, D] if actions have D dimensions, or [T, A] float32
    reward: NDArray[np.float32]  # [T]


def episode_seed(seed: int, index: int, episode: int) -> int:
    """Seed (31 bits) of one episode of one environment, so that any episode can be repeated alone."""
    return int(np.random.SeedSequence([seed, index, episode]).generate_state(1)[0] >> 1)


def read_array(name: str, value: Any) -> Array:
    """`value` as an array, not copied; raises EnvironmentFault if it is ragged, like a pair of an array and a dict."""
    try:
        return np.asarray(value)
    except ValueError:
        shown = " ".join(repr(value).split())
        raise EnvironmentFault(f"{name} is {shown:.60}; an array is required") from None


def cast(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """`array` as its space's `dtype`; raises EnvironmentFault if that has another kind of numbers or can't hold one."""
    if array.dtype == dtype:
        return array
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise EnvironmentFault(f"{name} has dtype {array.dtype.name}; its space declares {dtype.name}")
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    lost = np.isinf(result) & np.isfinite(array) if dtype.kind == "f" else result != array
    if lost.any():
        where = np.argwhere(lost)[0].tolist()
        raise EnvironmentFault(f"{name}{where or ''} is {array[tuple(where)]}; its space declares {dtype.name}")
    return result


def read_reward(reward: Any) -> float:
    """What an environment's step() returned as reward; raises EnvironmentFault unless it is a real number.

    That may be NumPy's, or an array of one. float() also reads texts, such as "1".
    """
    try:
        if isinstance(reward, _NUMBERS):
            return float(reward)
        array = np.asarray(reward)
        if array.dtype.kind in "biuf" and array.size == 1:
            return float(array.item())
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is torch's
        pass
    raise EnvironmentFault(f"reward is {reward!r:.60}; a number is required")


def read_flag(name: str, value: Any) -> bool:
    """`terminated` or `truncated` of an environment's step(); raises EnvironmentFault unless it is a truth value.

    That may be NumPy's, an integer, or an array of one. bool() also reads texts, such as "no", and None.
    """
    if value is True or value is False:
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biu" and array.size == 1:
            return bool(array)
    except (TypeError, ValueError, RuntimeError):  # of lists of unequal lengths, and of torch's tensors
        pass
    raise EnvironmentFault(f"{name} is {value!r:.60}; true or false is required")


class EnvironmentBatch(ABC):
    """E environments of one id, stepped together; `make_batch` creates them.

    Actions are the policy's: numbers from 0 even if the environment's actions start at another number, [D] of them if
    actions have D dimensions, or float32 [A] in [-1, 1] for any bounds of the environment. Every observation, reward
    and continuous action is checked; EnvironmentFault names environment, episode, step and field. An exception of the
    environment is passed on with a note that says where it occurred. `beat` is called before every call of an
    environment, and rewards are clipped to [-1, 1] if `clip_rewards`. No episode is longer than `longest_episode`.
    Each call returns new arrays, which the caller may keep. One thread.
    """

    spec: EnvironmentSpec

    def __init__(self, environment_id: str, count: int, seed: int, first_index: int) -> None:
        if count < 1:
            raise ConfigError(f"count of environments is {count}; at least 1 is required")
        self._id = environment_id
        self._count = count
        self._seed = seed
        self._first_index = first_index
        self._episode = [0] * count
        """Number of the open episode of each environment."""
        self._finished: list[Episode] = []

    def __len__(self) -> int:
        return self._count

    @property
    def episodes(self) -> int:
        """Number of episodes of all environments before the open ones, those before a `restore` included."""
        return sum(self._episode)

    def take_episodes(self) -> list[Episode]:
        """Returns the episodes that finished since the last call, oldest first."""
        finished, self._finished = self._finished, []
        return finished

    @abstractmethod
    def start(self) -> Array:
        """Begins the first episodes -> first observations [E, *O]."""

    @abstractmethod
    def step(self, actions: Array) -> EnvironmentStep:
        """Takes one action in each, [E] or [E, D] int64 or [E, A] float32; see `EnvironmentStep.skipped`.

        Termination takes precedence over truncation.
        """

    def state(self) -> dict[str, Any]:
        """State for `restore`, JSON-able."""
        return {
            "environment": self._id,
            "seed": self._seed,
            "first_index": self._first_index,
            "episode": list(self._episode),
        }

    def restore(self, state: Mapping[str, Any]) -> list[OpenEpisode]:
        """Continues from a state() -> one OpenEpisode per environment; replaces `start`.

        An environment that can't repeat its open episode begins the next one; its OpenEpisode has no steps. Raises
        CheckpointError for the state of a different batch.
        """
        expected = {"environment": self._id, "seed": self._seed, "first_index": self._first_index}
        for field, value in expected.items():
            if state[field] != value:
                raise CheckpointError(
                    f"environments: {field} is {state[field]!r} in the checkpoint; {value!r} is required"
                )
        if len(state["episode"]) != len(self):
            raise CheckpointError(
                f"environments: the checkpoint holds {len(state['episode'])} environments; {len(self)} are required"
            )
        self._episode = list(state["episode"])
        self._finished = []
        return self._reopen(state)

    @abstractmethod
    def _reopen(self, state: Mapping[str, Any]) -> list[OpenEpisode]:
        """The open episodes of a state() of this batch."""

    @abstractmethod
    def close(self) -> None:
        """Closes every environment; stops at one that does not return, when a watch raises EnvironmentFault."""


class Suite(ABC):
    """Environments named PREFIX/TASK. A suite has no state; any thread may call it.

    `spaces.py` reads the spaces of each environment. An environment whose policy sees the last K frames sets
    `metadata["stack"]` to K and returns single frames. Any exception of a method becomes an EnvironmentFault of one
    line; an EnvironmentFault is passed on unchanged.
    """

    prefix: ClassVar[str]
    """The first part of each name, up to and including the slash: "dm_control/"."""
    packages: ClassVar[str] = ""
    """The packages that the extra installs, for messages: "ale-py and OpenCV"."""
    modules: ClassVar[tuple[str, ...]] = ()
    """The top-level modules of these packages. Gymnasium ids that they register are not suggested to users."""
    requirement: ClassVar[str] = ""
    """The requirement for pip: "headrace[atari]"."""
    defaults: ClassVar[Mapping[str, EnvironmentDefaults]] = {}
    """Settings that all algorithms share, by name: "PREFIX/..." has those of all environments without their own."""

    def load(self, environment_id: str) -> None:
        """Imports `modules`; raises EnvironmentFault, which names `environment_id`, if one is not installed."""
        try:
            for module in self.modules:
                importlib.import_module(module)
        except ImportError as error:
            raise self.missing(environment_id, error) from error

    def missing(self, environment_id: str, error: ImportError) -> EnvironmentFault:
        """Returns the error that names the missing packages and the command that installs them."""
        return EnvironmentFault(
            f'environment "{environment_id}" needs {self.packages} ({error}): pip install "{self.requirement}"'
        )

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Returns the names of all tasks, including the prefix; called after `load`.

        Errors about unknown names suggest similar names from this list. Users may omit a version at the end ("-v5").
        """

    @abstractmethod
    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates the environment with one of `names`; called after `load`."""


class VectorSuite(Suite):
    """A suite whose environments are stepped in one call, as a `gymnasium.vector.VectorEnv`.

    `make` creates a single one, whose spaces are those of the vectorized ones.
    """

    @abstractmethod
    def make_vector(self, name: str, count: int, seed: int) -> VectorEnv[Any, Any, Any]:
        """Creates E environments with one of `names`; called after `load`.

        Their metadata has an "autoreset_mode" of Gymnasium. The first reset() gets the same seed (31 bits).
        """
