"""Windows of episodes: their form as records of bytes, and the writers that assemble them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import ChunkWriter, Signature
from headrace.types import Array, EnvironmentSpec, EnvironmentStep

if TYPE_CHECKING:
    from headrace.environments import OpenEpisode

__all__ = ["WindowForm", "WindowWriters", "Windows"]

_DUMMY = np.zeros(1, np.uint8)
"""A transition's observation: the window itself is in its action, which is stored once."""


class Windows(NamedTuple):
    """A batch of windows.

    Window b has `steps[b]` steps: `burn_in[b]` that only update the state, then the learned ones, then those that only
    targets need. It has one more observation than steps. All after them is padding.

    Dimension letters: B windows, M the most steps of one, S the numbers of a state.
    """

    burn_in: NDArray[np.int64]  # [B]
    steps: NDArray[np.int64]  # [B]
    terminated: NDArray[np.bool_]  # [B], by the last step
    state: NDArray[np.float32]  # [B, S], the recurrent state with which the first action was chosen
    observation: Array  # [B, M+1, K, *O], or [B, M+1, *O] where K is 1
    action: NDArray[np.int64]  # [B, M]
    reward: NDArray[np.float32]  # [B, M]


@dataclass(frozen=True)
class WindowForm:
    """How windows lie in an episode, and as bytes in a record.

    Window k learns the steps from k * stride to k * stride + learned, or to the end of the episode. Before them are up
    to `burn_in` steps. The steps of the last learned one's target follow. A window that learns nothing that the one
    before it does not learn is left out, so an episode has one window or more.
    """

    spec: EnvironmentSpec
    burn_in: int
    learned: int
    n_step: int
    state_size: int

    @property
    def stride(self) -> int:
        """Learned steps between the beginnings of two windows."""
        return self.learned // 2

    @property
    def most_steps(self) -> int:
        """M, the steps of a full window: the last learned one's target needs n - 1 more."""
        return self.burn_in + self.learned + self.n_step - 1

    @property
    def most_finished(self) -> int:
        """The most windows that one step finishes: those that wait for n - 1 more steps at an end."""
        return ceil((self.n_step + self.stride - 1) / self.stride)

    @property
    def record(self) -> np.dtype[Any]:
        """One window; frames are those of the observations, the K - 1 before them first."""
        spec, steps = self.spec, self.most_steps
        return np.dtype(
            [
                ("burn_in", np.int32),
                ("steps", np.int32),
                ("terminated", np.int32),
                ("state", np.float32, (self.state_size,)),
                ("reward", np.float32, (steps,)),
                ("action", np.int32, (steps,)),
                ("frame", spec.observation_dtype, (steps + spec.stack, *spec.observation_shape)),
            ]
        )

    @property
    def signature(self) -> Signature:
        """The table of windows."""
        return Signature(_DUMMY.shape, "uint8", (self.record.itemsize,), "uint8")

    def begin(self, window: int) -> int:
        """The episode's step with which a window begins."""
        return max(0, window * self.stride - self.burn_in)

    def begins_at(self, step: int) -> bool:
        """Whether a window begins with this step of the episode."""
        return step == 0 or (step + self.burn_in) % self.stride == 0

    def end(self, window: int) -> int:
        """The number of the episode's steps that complete a window."""
        return window * self.stride + self.learned + self.n_step - 1

    def unpack(self, records: NDArray[np.uint8]) -> Windows:
        """The windows of records [B, bytes]; frames are stacked."""
        fields = records.view(self.record)[:, 0]
        frame = fields["frame"]
        depth = self.spec.stack
        if depth > 1:  # [B, M+K, *O] -> [B, M+1, K, *O]
            frame = np.moveaxis(np.lib.stride_tricks.sliding_window_view(frame, depth, axis=1), -1, 2)
        return Windows(
            fields["burn_in"].astype(np.int64),
            fields["steps"].astype(np.int64),
            fields["terminated"] != 0,
            fields["state"].copy(),  # one row of it counts as contiguous where it is
            frame,
            fields["action"].astype(np.int64),
            fields["reward"],
        )


class WindowWriters:
    """Writes the windows of E environments' episodes as transitions of one step; implements `StepWriters`."""

    def __init__(self, form: WindowForm, count: int, first_environment: int) -> None:
        self._chunks = [
            ChunkWriter(form.signature, n_step=1, discount=0.0, chunk_steps=1, actor=first_environment + index)
            for index in range(count)
        ]
        self._episodes = [_Episode(form) for _ in range(count)]

    def set_policy_version(self, version: int) -> None:
        """Sets the policy version that the following windows are stamped with."""
        for writer in self._chunks:
            writer.set_policy_version(version)

    def start(self, observation: Array) -> None:
        """Begins the first episodes with these observations [E, *O]."""
        for episode, first in zip(self._episodes, observation, strict=True):
            episode.start(first)

    def append(
        self,
        memory: NDArray[np.float32] | None,
        action: Array,
        step: EnvironmentStep,
        output: NDArray[np.float32] | None = None,
        final: NDArray[np.float32] | None = None,
    ) -> Sequence[bytes]:
        """Adds one step of each environment, except where it is skipped; returns the chunks of finished windows."""
        assert memory is not None
        chunks: list[bytes] = []
        for index, (episode, writer) in enumerate(zip(self._episodes, self._chunks, strict=True)):
            if step.skipped is not None and step.skipped[index]:
                episode.start(step.next_start[index])
                continue
            episode.append(memory[index], int(action[index]), float(step.reward[index]), step.observation[index])
            ended = bool(step.terminated[index] or step.truncated[index])
            for record in episode.take(ended, bool(step.terminated[index])):
                writer.start(_DUMMY)
                writer.append(record, 0.0, _DUMMY, True, False)
                chunks += writer.take()
            if ended:
                episode.start(step.next_start[index])
        return chunks

    def state(self) -> Any:
        """The stored states of the windows that are not written yet, for each environment."""
        return [{str(begin): state.tolist() for begin, state in episode.states.items()} for episode in self._episodes]

    def restore(self, episodes: "Sequence[OpenEpisode]", state: Any) -> None:
        """Continues these open episodes."""
        for episode, opened, kept in zip(self._episodes, episodes, state, strict=True):
            episode.start(opened.frames[0])
            for t, (action, reward) in enumerate(zip(opened.action.tolist(), opened.reward.tolist(), strict=True)):
                values = np.array(kept.get(str(t), ()), np.float32)
                episode.append(values, action, reward, opened.frames[t + 1])
                episode.drop()


class _Episode:
    """The steps of one environment's episode that windows still need."""

    def __init__(self, form: WindowForm) -> None:
        self._form = form
        self._record = form.record

    def start(self, observation: Array) -> None:
        """Begins an episode."""
        self._first = 0  # step of the first frame, action and reward that are kept
        self._frames: list[Array] = [observation]
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self.states: dict[int, NDArray[np.float32]] = {}  # [S] by the step with which a window begins
        self._window = 0  # the next to be written

    @property
    def _steps(self) -> int:
        return self._first + len(self._actions)

    def append(self, state: NDArray[np.float32], action: int, reward: float, observation: Array) -> None:
        """Adds a step: the state before it, and what followed."""
        if self._form.begins_at(self._steps):
            self.states[self._steps] = state.copy()
        self._actions.append(action)
        self._rewards.append(reward)
        self._frames.append(observation)

    def take(self, ended: bool, terminated: bool) -> list[Array]:
        """The records [bytes] of the windows that are complete."""
        form = self._form
        records = []
        while True:
            if not ended and self._steps < form.end(self._window):
                break
            learned_before = (self._window - 1) * form.stride + form.learned
            if ended and self._window and self._steps <= learned_before:
                break
            records.append(self._pack(terminated))
            self._next_window()
        return records

    def drop(self) -> None:
        """Passes over the windows that are complete, of an episode that has not ended."""
        while self._steps >= self._form.end(self._window):
            self._next_window()

    def _next_window(self) -> None:
        """Forgets what only the window before needed."""
        self._window += 1
        begin = self._form.begin(self._window)
        self.states = {step: state for step, state in self.states.items() if step >= begin}
        unneeded = max(0, begin - (self._form.spec.stack - 1)) - self._first
        if unneeded > 0:
            del self._frames[:unneeded], self._actions[:unneeded], self._rewards[:unneeded]
            self._first += unneeded

    def _pack(self, terminated: bool) -> Array:
        form = self._form
        begin = form.begin(self._window)
        steps = min(self._steps, form.end(self._window)) - begin
        record = np.zeros((), self._record)
        record["burn_in"] = self._window * form.stride - begin
        record["steps"] = steps
        record["terminated"] = terminated and begin + steps == self._steps
        record["state"] = self.states[begin]
        first = begin - self._first
        record["reward"][:steps] = self._rewards[first : first + steps]
        record["action"][:steps] = self._actions[first : first + steps]
        depth = form.spec.stack
        for row in range(steps + depth):
            record["frame"][row] = self._frames[max(0, first - depth + 1 + row)]
        return record.reshape(1).view(np.uint8)
