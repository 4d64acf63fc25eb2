"""Several environments of one id, stepped one after the other in one thread."""

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from headrace.environments.base import (
    EnvironmentBatch,
    Episode,
    OpenEpisode,
    cast,
    episode_seed,
    read_array,
    read_flag,
    read_reward,
)
from headrace.environments.calls import calling
from headrace.environments.catalogue import make
from headrace.environments.records import FLOAT32_MAX, finite_float32
from headrace.environments.spaces import close, read_spaces
from headrace.errors import ClosedError, EnvironmentFault, HeadraceError
from headrace.types import Array, EnvironmentStep

__all__ = ["SingleEnvironments"]

_MOST_REPEATED_STEPS = 27_000
"""Of an open episode when a run is resumed: Atari's longest. Of a longer one, no actions are kept."""


def _checksum(frame: Array) -> str:
    return hashlib.blake2b(frame.tobytes(), digest_size=8).hexdigest()


class SingleEnvironments(EnvironmentBatch):
    """E environments that are stepped one after the other, each of which may be a user's `gymnasium.Env`.

    An environment whose episode ended is reset at once: no step is spent on a reset. A step that fails in one
    environment counts in none. Episodes are truncated after `longest_episode` steps.
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
        super().__init__(environment_id, count, seed, first_index)
        self._clip_rewards = clip_rewards
        self._longest_episode = longest_episode
        self._beat = beat
        self._environments = [make(environment_id)]
        self._steps = [0] * count  # of the open episodes
        self._actions: list[list[Any]] = [[] for _ in range(count)]  # of these, if they are kept: see _rows()
        self._return = [0.0] * count
        self._newest: Array | None = None  # observations [E, *O] on which the next actions depend
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
        self._row_dtype = np.float32 if self.spec.continuous else np.int64
        self._step_functions = [environment.step for environment in self._environments]

    def start(self) -> Array:
        """Resets every environment -> first observations [E, *O]."""
        observation = self._new_frames(len(self))
        for index in range(len(self)):
            self._reset(index, observation, index)
        self._newest = observation
        return observation

    def step(self, actions: Array) -> EnvironmentStep:
        """Takes one action in each; after a step that fails, state() is that before it."""
        records, episodes, finished = list(self._actions), list(self._episode), len(self._finished)
        steps, lengths = list(self._steps), [len(record) for record in records]
        try:
            step = self._step(actions)
            self._newest = step.next_start
            return step
        except BaseException:
            for record, length in zip(records, lengths, strict=True):
                del record[length:]
            self._actions, self._episode, self._steps = records, episodes, steps
            del self._finished[finished:]
            raise

    def _step(self, actions: Array) -> EnvironmentStep:
        actions = np.asarray(actions)
        if self.spec.continuous:
            self._check_actions(actions)
        kept, own = self._rows(actions), self._action_map.to_environment(actions)
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
            length = self._steps[index]
            number = self._first_index + index
            self._finished.append(Episode(number, self._return[index], length, bool(terminated[index])))
            self._episode[index] += 1
            self._reset(index, next_start, index)
        return EnvironmentStep(observation, reward, terminated, truncated, next_start)

    def state(self) -> dict[str, Any]:
        """Episode numbers, and the actions of each open episode with a checksum of the observation after them.

        None for the actions of an episode that is too long to be repeated.
        """
        newest = [] if self._newest is None else [_checksum(row) for row in self._newest]
        actions = [self._kept(record, steps) for record, steps in zip(self._actions, self._steps, strict=True)]
        return {**super().state(), "actions": actions, "newest": newest}

    def _reopen(self, state: Mapping[str, Any]) -> list[OpenEpisode]:
        """Repeats every open episode from its seed and actions.

        An environment whose episodes depend on these alone is then in the same state as before. If an episode ends
        while it is repeated, or leads to another observation, they do not, and the next one starts.
        """
        newest = state["newest"] or [""] * len(self)  # before the first step there is none
        opened = zip(range(len(self)), state["actions"], newest, strict=True)
        frames = [self._repeat(*each) for each in opened]
        self._newest = np.stack([each.frames[-1] for each in frames])
        return frames

    def close(self) -> None:
        """Closes every environment, in their order."""
        for environment in self._environments:
            with contextlib.suppress(ClosedError):  # the run was asked to stop; closing is part of that
                self._beat()
            close(environment, self._id)

    def _repeat(self, index: int, record: Sequence[Any] | None, newest: str = "") -> OpenEpisode:
        if record is None:
            self._episode[index] += 1
            return self._repeat(index, [])
        actions = self._action_map.from_record(record)
        kept, own = self._rows(actions), self._action_map.to_environment(actions)
        frames = self._new_frames(len(actions) + 1)
        reward = np.empty(len(actions), np.float32)
        self._reset(index, frames, 0)
        for t in range(len(actions)):
            try:
                reward[t], terminated, truncated = self._advance(index, kept[t], own[t], frames, t + 1)
            except HeadraceError:
                raise
            except Exception:  # such as of an action that is illegal in another state than then
                terminated = truncated = True
            if terminated or truncated:
                self._episode[index] += 1
                return self._repeat(index, [])
            self._check_finite_row(index, frames[t + 1])
        if newest and _checksum(frames[-1]) != newest:
            self._episode[index] += 1
            return self._repeat(index, [])
        return OpenEpisode(frames, actions, reward)

    def _new_frames(self, count: int) -> Array:
        return np.empty((count, *self._shape), self._dtype)

    def _reset(self, index: int, out: Array, row: int) -> None:
        """Starts the environment's next episode; its first observation goes to `out[row]`."""
        self._actions[index], self._steps[index] = [], 0
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

    def _rows(self, actions: Array) -> list[Any]:
        """The actions, one by one, as they are kept: numbers, or the bytes of several, which are smaller."""
        if actions.ndim == 1:
            numbers: list[Any] = actions.tolist()
            return numbers
        return [row.tobytes() for row in actions.astype(self._row_dtype, copy=False)]

    def _kept(self, record: list[Any], steps: int) -> list[Any] | None:
        if len(record) != steps:
            return None
        return [np.frombuffer(row, self._row_dtype).tolist() if isinstance(row, bytes) else row for row in record]

    def _advance(self, index: int, kept: Any, own: Any, out: Array, row: int) -> tuple[float, bool, bool]:
        """One step of one environment with its `own` action -> reward (clipped if set), terminated, truncated."""
        self._beat()
        self._steps[index] += 1
        if self._steps[index] <= _MOST_REPEATED_STEPS:
            self._actions[index].append(kept)
        elif self._actions[index]:
            self._actions[index] = []
        try:
            result = self._step_functions[index](own)
        except (Exception, SystemExit) as error:
            raise self._place_error(index, error) from None
        if not isinstance(result, tuple) or len(result) != 5:
            self._fault(
                index,
                f"step() returned {result!r:.60}; (observation, reward, terminated, truncated, info) is required",
            )
        observation, reward, terminated, truncated, info = result
        try:
            over, cut = read_flag("terminated", terminated), read_flag("truncated", truncated)
            value = read_reward(reward)
        except EnvironmentFault as error:
            self._fault(index, str(error))
        self._store(index, observation, info, out, row, final=over)
        if not -FLOAT32_MAX <= value <= FLOAT32_MAX:  # false for NaN as well
            self._fault(index, f"reward is {value}; a finite float32 is required")
        self._return[index] += value
        if self._clip_rewards:
            value = min(1.0, max(-1.0, value))
        return value, over, cut or self._steps[index] == self._longest_episode

    def _store(self, index: int, observation: Any, info: Any, out: Array, row: int, *, final: bool = False) -> None:
        if self._packer is not None:
            try:
                self._packer.pack(observation, info, out[row], final=final)
            except EnvironmentFault as error:
                self._fault(index, str(error))
            return
        if type(observation) is not np.ndarray or observation.dtype != self._dtype:
            try:
                observation = cast("observation", read_array("observation", observation), self._dtype)
            except EnvironmentFault as error:
                self._fault(index, str(error))
        if observation.shape != self._shape:
            self._fault(index, f"observation has shape {observation.shape}; its space declares {self._shape}")
        out[row] = observation

    def _check_finite(self, observation: Array) -> None:
        if self._dtype.kind == "f" and not finite_float32(observation).all():
            for index, row in enumerate(observation):
                self._check_finite_row(index, row)

    def _check_finite_row(self, index: int, row: Array) -> None:
        if self._dtype.kind != "f" or finite_float32(row).all():
            return
        where = tuple(np.argwhere(~finite_float32(row))[0].tolist())
        name = f"observation{list(where)}" if where else "observation"
        self._fault(index, f"{name} is {row[where]}; every value must be finite as float32")

    def _check_actions(self, actions: Array) -> None:
        if not np.isfinite(actions).all():
            index, dimension = np.argwhere(~np.isfinite(actions))[0].tolist()
            raise EnvironmentFault(
                f"{self._place(index)}: the policy's next action[{dimension}] is {actions[index, dimension]}; "
                "every value must be finite"
            )

    def _fault(self, index: int, problem: str) -> NoReturn:
        raise EnvironmentFault(f"{self._place(index)}: {problem}")

    def _place_error(self, index: int, error: BaseException) -> Exception:
        """The error with a note of where it was raised; an environment that exits has failed."""
        if isinstance(error, SystemExit):
            error = RuntimeError(f"the environment called sys.exit({error.code!r})")
        assert isinstance(error, Exception)
        error.add_note(f"raised by {self._place(index)}")
        return error

    def _place(self, index: int) -> str:
        number = self._first_index + index
        return f'environment "{self._id}", index {number}, episode {self._episode[index]}, step {self._steps[index]}'
