"""Environments that are stepped in one call, without a loop over them: `gymnasium.vector.VectorEnv`."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from headrace.environments.base import EnvironmentBatch, Episode, OpenEpisode, cast, episode_seed, read_array
from headrace.environments.calls import calling
from headrace.environments.records import FLOAT32_MAX, MASK, finite_float32, row_of
from headrace.environments.spaces import convert_spaces
from headrace.errors import ClosedError, EnvironmentFault
from headrace.types import Array, EnvironmentStep

__all__ = ["VectorEnvironments"]


class VectorEnvironments(EnvironmentBatch):
    """E environments in one `VectorEnv`, in any of Gymnasium's modes of resetting them.

    With NEXT_STEP, a step of which an environment makes its reset is `skipped`; it is no transition. `create(seed)`
    creates the environments. Their episodes depend on one seed and on all actions before, so they can't be repeated:
    `restore` begins new episodes with another seed. An episode longer than `longest_episode` raises EnvironmentFault:
    a single environment can't be reset.
    """

    def __init__(
        self,
        environment_id: str,
        count: int,
        create: Callable[[int], VectorEnv[Any, Any, Any]],
        *,
        seed: int,
        first_index: int = 0,
        clip_rewards: bool = False,
        longest_episode: int | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(environment_id, count, seed, first_index)
        self._create = create
        self._clip_rewards = clip_rewards
        self._longest_episode = longest_episode
        self._beat = beat
        self._starts = 0
        self._return = np.zeros(count)
        self._length = np.zeros(count, np.int64)
        self._ended = np.zeros(count, np.bool_)  # by the last step, and not reset yet
        self._vector, self._first = self._open()
        try:
            self._mode = self._read_mode()
            vector = self._vector
            spaces = vector.single_observation_space, vector.single_action_space
            first = (None, _mask_of(self._first[1], 0))
            self.spec, self._action_map, self._packer = convert_spaces(*spaces, vector.metadata, environment_id, first)
            self._action_dtype = getattr(vector.single_action_space, "dtype", None)
        except BaseException:
            self.close()
            raise
        self._shape = self.spec.observation_shape
        self._dtype = np.dtype(self.spec.observation_dtype)

    def start(self) -> Array:
        """Begins the first episodes -> first observations [E, *O]."""
        return self._store(*self._first, np.zeros(len(self), np.bool_))

    def step(self, actions: Array) -> EnvironmentStep:
        """Takes one action in each environment, except those that this step resets."""
        own = self._to_vector(np.asarray(actions))
        self._beat()
        try:
            result = self._vector.step(own)
        except (Exception, SystemExit) as error:
            raise self._place_error(error) from None
        if not isinstance(result, tuple) or len(result) != 5:
            self._fault(
                None, f"step() returned {result!r:.60}; (observation, reward, terminated, truncated, info) is required"
            )
        skipped = self._ended if self._mode is AutoresetMode.NEXT_STEP else None
        reward = self._column("reward", result[1], np.float64)
        terminated, truncated = (
            self._column(name, flags, np.bool_)
            for name, flags in zip(("terminated", "truncated"), result[2:4], strict=True)
        )
        if skipped is not None:
            reward[skipped], terminated[skipped], truncated[skipped] = 0, False, False
            self._length[skipped], self._return[skipped] = -1, 0
        truncated &= ~terminated
        ended = terminated | truncated
        self._length += 1
        self._check_rewards(reward)
        self._check_lengths(ended)
        self._return += reward
        observation, next_start = self._observe(result[0], result[4], terminated, ended)
        self._finish(ended, terminated)
        if self._clip_rewards:
            np.clip(reward, -1, 1, out=reward)
        return EnvironmentStep(observation, reward.astype(np.float32), terminated, truncated, next_start, skipped)

    def state(self) -> dict[str, Any]:
        """Episode numbers, and how often environments were created."""
        return {**super().state(), "starts": self._starts}

    def _reopen(self, state: Mapping[str, Any]) -> list[OpenEpisode]:
        """New episodes, since the open ones can't be repeated."""
        self.close()
        self._starts = state["starts"] + 1
        self._vector, self._first = self._open()
        actions = self._action_map.from_record([])
        return [OpenEpisode(frame[None], actions, np.zeros(0, np.float32)) for frame in self.start()]

    def close(self) -> None:
        """Closes the environments."""
        with contextlib.suppress(ClosedError):  # the run was asked to stop; closing is part of that
            self._beat()
        with calling(f'environment "{self._id}": its close()'):
            try:
                self._vector.close()
            except EnvironmentFault:
                raise
            except Exception:  # they are no longer needed
                return

    def _open(self) -> tuple[VectorEnv[Any, Any, Any], tuple[Any, Any]]:
        """Creates the environments -> them, and what their first reset() returned."""
        seed = episode_seed(self._seed, self._first_index, self._starts)
        self._beat()
        with calling(f'environment "{self._id}": its constructor'):
            vector = self._create(seed)
        self._beat()
        try:
            with calling(f'environment "{self._id}": its first reset()'):
                return vector, self._pair(vector.reset(seed=seed))
        except (Exception, SystemExit) as error:
            vector.close()
            raise self._place_error(error) from None

    def _read_mode(self) -> AutoresetMode:
        mode = self._vector.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise EnvironmentFault(
                f'environment "{self._id}": metadata["autoreset_mode"] is {mode!r:.60}; one of Gymnasium\'s '
                "AutoresetMode is required"
            )
        return mode

    def _to_vector(self, actions: Array) -> Any:
        """A policy's actions as the VectorEnv takes them."""
        if self.spec.continuous and not np.isfinite(actions).all():
            index, dimension = np.argwhere(~np.isfinite(actions))[0].tolist()
            number = actions[index, dimension]
            self._fault(index, f"the policy's next action[{dimension}] is {number}; every value must be finite")
        own = self._action_map.to_batch(actions)
        return own if self._action_dtype is None else own.astype(self._action_dtype, copy=False)

    def _observe(
        self, observation: Any, info: Any, terminated: NDArray[np.bool_], ended: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """The observations after the step, and those for the next action; resets environments if the mode says so."""
        if self._mode is not AutoresetMode.SAME_STEP:
            frames = self._store(observation, info, terminated)
            if self._mode is AutoresetMode.NEXT_STEP or not ended.any():
                return frames, frames
            self._beat()
            try:
                first, info = self._pair(self._vector.reset(options={"reset_mask": ended.copy()}))
            except (Exception, SystemExit) as error:
                raise self._place_error(error) from None
            next_start = frames.copy()
            for index in np.flatnonzero(ended).tolist():
                self._store_row(next_start, index, row_of(first, index), _mask_of(info, index), final=False)
            return frames, next_start
        next_start = self._store(observation, info, np.zeros_like(terminated))
        if not ended.any():
            return next_start, next_start
        if not isinstance(info, Mapping) or "final_obs" not in info:
            self._fault(None, 'info["final_obs"] is missing; it is required of AutoresetMode.SAME_STEP')
        frames = next_start.copy()
        for index in np.flatnonzero(ended).tolist():
            final = row_of(info["final_obs"], index)
            mask = _mask_of(info.get("final_info", {}), index)
            self._store_row(frames, index, final, mask, final=bool(terminated[index]))
        return frames, next_start

    def _finish(self, ended: NDArray[np.bool_], terminated: NDArray[np.bool_]) -> None:
        """Records the episodes that ended."""
        for index in np.flatnonzero(ended).tolist():
            number, length = self._first_index + index, int(self._length[index])
            self._finished.append(Episode(number, float(self._return[index]), length, bool(terminated[index])))
            self._episode[index] += 1
        if self._mode is AutoresetMode.NEXT_STEP:
            self._ended = ended
        else:
            self._length[ended], self._return[ended] = 0, 0

    def _store(self, observation: Any, info: Any, final: NDArray[np.bool_]) -> Array:
        """Checked frames [E, *O]."""
        out = np.empty((len(self), *self._shape), self._dtype)
        if self._packer is not None:
            try:
                self._packer.pack_batch(observation, info, out, final)
            except EnvironmentFault:  # find the environment, to name it
                with contextlib.suppress(IndexError, TypeError):  # a part that has no row for each environment
                    for index in range(len(self)):
                        mask = _mask_of(info, index)
                        self._store_row(out, index, row_of(observation, index), mask, final=bool(final[index]))
                raise
            return out
        out[:] = self._checked(self._array("observation", observation), out.shape)
        return out

    def _array(self, name: str, value: Any, index: int | None = None) -> Array:
        try:
            return read_array(name, value)
        except EnvironmentFault as error:
            self._fault(index, str(error))

    def _checked(self, array: Array, shape: tuple[int, ...], index: int | None = None) -> Array:
        """An observation of environment `index`, or, without it, those of all of them, [E, *O]."""
        if array.shape != shape:
            self._fault(index, f"observation has shape {array.shape}; {shape} is required by its space")
        try:
            stored = cast("observation", array, self._dtype)
        except EnvironmentFault as error:
            self._fault(index, str(error))
        if self._dtype.kind == "f" and not finite_float32(stored).all():
            where = np.argwhere(~finite_float32(stored))[0].tolist()
            value = stored[tuple(where)]
            index = where.pop(0) if index is None else index
            self._fault(index, f"observation{where or ''} is {value}; every value must be finite as float32")
        return stored

    def _store_row(self, out: Array, index: int, observation: Any, info: Mapping[str, Any], *, final: bool) -> None:
        """Stores the observation of one environment."""
        if self._packer is None:
            out[index] = self._checked(self._array("observation", observation, index), self._shape, index)
            return
        try:
            self._packer.pack(observation, info, out[index], final=final)
        except EnvironmentFault as error:
            self._fault(index, str(error))

    def _column(self, name: str, values: Any, dtype: type) -> Array:
        """A new array [E] of a step's results."""
        array = self._array(name, values)
        if array.shape != (len(self),) or array.dtype.kind not in "biuf":
            self._fault(None, f"{name} is {array.dtype.name} {array.shape}; numbers ({len(self)},) are required")
        return array.astype(dtype)

    def _check_rewards(self, reward: Array) -> None:
        valid = np.abs(reward) <= FLOAT32_MAX  # false for NaN as well
        if not valid.all():
            index = int(np.argmin(valid))
            self._fault(index, f"reward is {reward[index]}; a finite float32 is required")

    def _check_lengths(self, ended: NDArray[np.bool_]) -> None:
        if self._longest_episode is None:
            return
        endless = (self._length >= self._longest_episode) & ~ended
        if endless.any():
            self._fault(
                int(np.argmax(endless)),
                f"the episode has {self._longest_episode:,} steps; at most as many are required, since a vectorized "
                "environment can't be reset alone (max_episode_steps limits them)",
            )

    def _pair(self, result: Any) -> tuple[Any, Any]:
        if not isinstance(result, tuple) or len(result) != 2:
            self._fault(None, f"reset() returned {result!r:.60}; (observation, info) is required")
        return result

    def _fault(self, index: int | None, problem: str) -> NoReturn:
        raise EnvironmentFault(f"{self._place(index)}: {problem}")

    def _place_error(self, error: BaseException) -> Exception:
        """The error with a note of where it was raised; environments that exit have failed."""
        if isinstance(error, EnvironmentFault):
            return error
        if isinstance(error, SystemExit):
            error = RuntimeError(f"the environment called sys.exit({error.code!r})")
        assert isinstance(error, Exception)
        error.add_note(f"raised by {self._place(None)}")
        return error

    def _place(self, index: int | None) -> str:
        first = self._first_index
        if index is None:
            return f'environment "{self._id}", indexes {first} to {first + len(self) - 1}'
        return (
            f'environment "{self._id}", index {first + index}, episode {self._episode[index]}, '
            f"step {self._length[index]}"
        )


def _mask_of(info: Any, index: int) -> dict[str, Any]:
    """One environment's action mask in the info of all, as its own info would have it."""
    if not isinstance(info, Mapping) or MASK not in info:
        return {}
    given = info.get(f"_{MASK}")
    return {MASK: row_of(info[MASK], index)} if given is None or given[index] else {}
