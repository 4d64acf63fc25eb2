"""Several environments of one id, stepped together in one thread."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from headrace.environments.calls import calling
from headrace.environments.catalogue import make
from headrace.environments.spaces import close, read_spaces
from headrace.errors import CheckpointError, ClosedError, ConfigError, EnvironmentFault
from headrace.types import Array, EnvironmentStep

__all__ = ["EnvironmentBatch", "Episode", "OpenEpisode", "episode_seed"]

_FLOAT32_MAX = float(np.finfo(np.float32).max)


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


class EnvironmentBatch:
    """E environments of one id. An environment whose episode ended is reset at once: no step is spent on a reset.

    Actions are the policy's: numbers from 0 even if the environment's actions start at another number, [D] of them if
    actions have D dimensions, or float32 [A] in [-1, 1] for any bounds of the environment. Every observation, reward
    and continuous action is checked; EnvironmentFault names environment, episode, step and field. An exception of the
    environment is passed on with a note that says where it occurred; a step that fails does not count. Episodes are
    truncated after `longest_episode` steps. `beat` is called before every call of an environment. Each call returns new
    arrays, which the caller may keep. One thread.
    """

    def __init__(
        self,
        environment_id: str,
        count: int,
        *,
        seed: int,
        first_index: int = 0,
        clip_rewards: bool = False,
        longest_episode: int | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        if count < 1:
            raise ConfigError(f"count of environments is {count}; at least 1 is required")
        self._id = environment_id
        self._seed = seed
        self._first_index = first_index
        self._clip_rewards = clip_rewards
        self._longest_episode = longest_episode
        self._beat = beat
        self._environments = [make(environment_id)]
        self._finished: list[Episode] = []
        self._episode = [0] * count
        self._actions: list[list[Any]] = [[] for _ in range(count)]
        self._return = [0.0] * count
        try:
            with calling(f'environment "{environment_id}": its first reset()'):
                self._first: Any = self._call_reset(0)  # its info says whether there are masks; start() uses it
            self.spec, self._action_map, self._packer = read_spaces(self._environments[0], environment_id, self._first)
            while len(self._environments) < count:
                beat()
                self._environments.append(make(environment_id))
        except BaseException:
            self.close()
            raise
        self._shape = self.spec.observation_shape
        self._dtype = np.dtype(self.spec.observation_dtype)
        self._step_functions = [environment.step for environment in self._environments]

    def __len__(self) -> int:
        return len(self._environments)

    @property
    def episodes(self) -> int:
        """Number of finished episodes of all environments, including those before a `restore`."""
        return sum(self._episode)

    def start(self) -> Array:
        """Resets every environment -> first observations [E, *O]."""
        observation = self._new_frames(len(self))
        for index in range(len(self)):
            self._reset(index, observation, index)
        return observation

    def step(self, actions: Array) -> EnvironmentStep:
        """Takes one action in each, [E] or [E, D] int64 or [E, A] float32.

        Termination takes precedence over truncation. A step that fails in one environment counts in none: then state()
        is that before it.
        """
        records, episodes, finished = list(self._actions), list(self._episode), len(self._finished)
        lengths = [len(record) for record in records]
        try:
            return self._step(actions)
        except BaseException:
            for record, length in zip(records, lengths, strict=True):
                del record[length:]
            self._actions, self._episode = records, episodes
            del self._finished[finished:]
            raise

    def _step(self, actions: Array) -> EnvironmentStep:
        actions = np.asarray(actions)
        if self.spec.continuous:
            self._check_actions(actions)
        kept, own = actions.tolist(), self._action_map.to_environment(actions)
        observation = self._new_frames(len(self))
        reward = np.empty(len(self), np.float32)
        terminated = np.zeros(len(self), np.bool_)
        truncated = np.zeros(len(self), np.bool_)
        ended = []
        for index in range(len(self)):
            reward[index], over, cut = self._advance(index, kept[index], own[index], observation, index)
            if over or cut:
                terminated[index], truncated[index] = over, cut and not over
                ended.append(index)
        self._check_finite(observation)
        if not ended:
            return EnvironmentStep(observation, reward, terminated, truncated, observation)
        next_start = observation.copy()
        for index in ended:
            length = len(self._actions[index])
            number = self._first_index + index
            self._finished.append(Episode(number, self._return[index], length, bool(terminated[index])))
            self._episode[index] += 1
            self._reset(index, next_start, index)
        return EnvironmentStep(observation, reward, terminated, truncated, next_start)

    def take_episodes(self) -> list[Episode]:
        """Returns the episodes that finished since the last call, oldest first."""
        finished, self._finished = self._finished, []
        return finished

    def state(self) -> dict[str, Any]:
        """State for `restore`, JSON-able: episode numbers, and the actions of each open episode."""
        return {
            "environment": self._id,
            "seed": self._seed,
            "first_index": self._first_index,
            "episode": list(self._episode),
            "actions": [list(actions) for actions in self._actions],
        }

    def restore(self, state: Mapping[str, Any]) -> list[OpenEpisode]:
        """Repeats every open episode from its seed and actions -> one OpenEpisode per environment; replaces `start`.

        A deterministic environment is then in the same state as before. If its episode ends while it is repeated, it is
        not deterministic: it starts its next episode, and its OpenEpisode has no steps. Raises CheckpointError for the
        state of a different batch.
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
        return [self._repeat(index, record) for index, record in enumerate(state["actions"])]

    def close(self) -> None:
        """Closes every environment; stops at one that does not return, when a watch raises EnvironmentFault."""
        for environment in self._environments:
            with contextlib.suppress(ClosedError):  # the run was asked to stop; closing is part of that
                self._beat()
            close(environment, self._id)

    def _repeat(self, index: int, record: Sequence[Any]) -> OpenEpisode:
        actions = self._action_map.from_record(record)
        kept, own = actions.tolist(), self._action_map.to_environment(actions)
        frames = self._new_frames(len(actions) + 1)
        reward = np.empty(len(actions), np.float32)
        self._reset(index, frames, 0)
        for t in range(len(actions)):
            reward[t], terminated, truncated = self._advance(index, kept[t], own[t], frames, t + 1)
            if terminated or truncated:
                self._episode[index] += 1
                return self._repeat(index, [])
            self._check_finite_row(index, frames[t + 1])
        return OpenEpisode(frames, actions, reward)

    def _new_frames(self, count: int) -> Array:
        return np.empty((count, *self._shape), self._dtype)

    def _reset(self, index: int, out: Array, row: int) -> None:
        """Starts the environment's next episode; its first observation goes to `out[row]`."""
        self._actions[index] = []
        self._return[index] = 0.0
        result = None
        if index == 0:
            result, self._first = None if self._episode[0] else self._first, None
        if result is None:
            result = self._call_reset(index)
        if not isinstance(result, tuple) or len(result) != 2:
            self._fault(index, f"reset() returned {result!r:.60}; (observation, info) is required")
        observation, info = result
        self._store(index, observation, info, out, row)
        self._check_finite_row(index, out[row])

    def _call_reset(self, index: int) -> Any:
        self._beat()
        seed = episode_seed(self._seed, self._first_index + index, self._episode[index])
        try:
            return self._environments[index].reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise self._place_error(index, error) from None

    def _advance(self, index: int, kept: Any, own: Any, out: Array, row: int) -> tuple[float, bool, bool]:
        """One step of one environment with its `own` action -> reward (clipped if set), terminated, truncated."""
        self._beat()
        self._actions[index].append(kept)
        try:
            result = self._step_functions[index](own)
        except (Exception, SystemExit) as error:
            placed = self._place_error(index, error)
            self._actions[index].pop()
            raise placed from None
        if not isinstance(result, tuple) or len(result) != 5:
            self._fault(
                index,
                f"step() returned {result!r:.60}; (observation, reward, terminated, truncated, info) is required",
            )
        observation, reward, terminated, truncated, info = result
        self._store(index, observation, info, out, row, final=bool(terminated))
        try:
            value = float(reward)
        except (TypeError, ValueError, OverflowError):
            self._fault(index, f"reward is {reward!r:.60}; a number is required")
        if not -_FLOAT32_MAX <= value <= _FLOAT32_MAX:  # false for NaN as well
            self._fault(index, f"reward is {value}; a finite float32 is required")
        self._return[index] += value
        if self._clip_rewards:
            value = min(1.0, max(-1.0, value))
        cut = len(self._actions[index]) == self._longest_episode
        return value, bool(terminated), bool(truncated) or cut

    def _store(self, index: int, observation: Any, info: Any, out: Array, row: int, *, final: bool = False) -> None:
        if self._packer is not None:
            try:
                self._packer.pack(observation, info, out[row], final=final)
            except EnvironmentFault as error:
                self._fault(index, str(error))
            return
        if type(observation) is not np.ndarray or observation.dtype != self._dtype:
            observation = np.asarray(observation)
            if not np.can_cast(observation.dtype, self._dtype, "same_kind"):
                self._fault(
                    index, f"observation has dtype {observation.dtype.name}; its space declares {self._dtype.name}"
                )
        if observation.shape != self._shape:
            self._fault(index, f"observation has shape {observation.shape}; its space declares {self._shape}")
        out[row] = observation

    def _check_finite(self, observation: Array) -> None:
        if self._dtype.kind == "f" and not np.isfinite(observation).all():
            for index, row in enumerate(observation):
                self._check_finite_row(index, row)

    def _check_finite_row(self, index: int, row: Array) -> None:
        if self._dtype.kind != "f" or np.isfinite(row).all():
            return
        where = tuple(np.argwhere(~np.isfinite(row))[0].tolist())
        name = f"observation{list(where)}" if where else "observation"
        self._fault(index, f"{name} is {row[where]}; every value must be finite")

    def _check_actions(self, actions: Array) -> None:
        if not np.isfinite(actions).all():
            index, dimension = np.argwhere(~np.isfinite(actions))[0].tolist()
            raise EnvironmentFault(
                f"{self._place(index)}: the policy's next action[{dimension}] is {actions[index, dimension]}; "
                "every value must be finite"
            )

    def _fault(self, index: int, problem: str) -> NoReturn:
        place = self._place(index)
        if self._actions[index]:
            self._actions[index].pop()
        raise EnvironmentFault(f"{place}: {problem}")

    def _place_error(self, index: int, error: BaseException) -> Exception:
        """The error with a note of where it was raised; an environment that exits has failed."""
        if isinstance(error, SystemExit):
            error = RuntimeError(f"the environment called sys.exit({error.code!r})")
        assert isinstance(error, Exception)
        error.add_note(f"raised by {self._place(index)}")
        return error

    def _place(self, index: int) -> str:
        number = self._first_index + index
        return (
            f'environment "{self._id}", index {number}, episode {self._episode[index]}, '
            f"step {len(self._actions[index])}"
        )
