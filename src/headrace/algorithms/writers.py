"""What an algorithm's table stores, and how actors write it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace._native import ChunkWriter, Signature, append_steps
from headrace.types import Array, EnvironmentSpec, EnvironmentStep

if TYPE_CHECKING:
    from headrace.environments import OpenEpisode

__all__ = ["StepWriters", "TableForm", "TransitionWriters", "table_signature"]


class TableForm(NamedTuple):
    """What a table stores as one transition."""

    signature: Signature
    n_step: int
    chunk_steps: int
    samples_per_insert: float
    """Transitions sampled for each one inserted."""
    most_inserted: int
    """The most transitions that one step of one environment finishes, but for one that waits for its priority."""

    @property
    def burst(self) -> float:
        """Transitions to be sampled for those of one step of one environment."""
        return self.samples_per_insert * self.most_inserted


class StepWriters(Protocol):
    """Turns the steps of E environments into chunks for a table. One thread."""

    def set_policy_version(self, version: int) -> None:
        """Sets the policy version that the following steps are stamped with."""

    def start(self, observation: Array) -> None:
        """Begins the first episodes with these observations [E, *O]."""

    def append(
        self,
        memory: NDArray[np.float32] | None,
        action: Array,
        step: EnvironmentStep,
        output: NDArray[np.float32] | None = None,
        final: NDArray[np.float32] | None = None,
    ) -> Sequence[bytes]:
        """Adds one step of each environment, except where it is skipped; returns the chunks that it finished.

        `memory` [E, S] is the state of a recurrent policy before the step. `output` [E, A] and `final` [E], if given,
        are the Q values of the step and the largest ones of final observations, for initial priorities.
        """

    def state(self) -> Any:
        """JSON-able state that restore() needs."""

    def restore(self, episodes: "Sequence[OpenEpisode]", state: Any) -> None:
        """Continues these open episodes, of which state() was returned. Chunks finished before are not written."""


class TransitionWriters:
    """Writes n-step transitions, each frame once; implements `StepWriters`.

    The environments' numbers begin with `first_environment`.
    """

    def __init__(
        self,
        signature: Signature,
        count: int,
        first_environment: int,
        *,
        n_step: int,
        discount: float,
        chunk_steps: int,
    ) -> None:
        self._writers = [
            ChunkWriter(
                signature, n_step=n_step, discount=discount, chunk_steps=chunk_steps, actor=first_environment + index
            )
            for index in range(count)
        ]

    def set_policy_version(self, version: int) -> None:
        """Sets the policy version that the following steps are stamped with."""
        for writer in self._writers:
            writer.set_policy_version(version)

    def start(self, observation: Array) -> None:
        """Begins the first episodes with these observations [E, *O]."""
        for index, writer in enumerate(self._writers):
            writer.start(observation[index])

    def append(
        self,
        memory: NDArray[np.float32] | None,
        action: Array,
        step: EnvironmentStep,
        output: NDArray[np.float32] | None = None,
        final: NDArray[np.float32] | None = None,
    ) -> Sequence[bytes]:
        """Adds one step of each environment, except where it is skipped; returns the chunks that it finished."""
        taken = (action, step.reward, step.observation, step.terminated, step.truncated, step.next_start)
        if step.skipped is None or not step.skipped.any():
            return append_steps(self._writers, *taken, output, final)
        for index in np.flatnonzero(step.skipped).tolist():
            self._writers[index].start(step.next_start[index])
        rows = np.flatnonzero(~step.skipped)
        kept: list[Any] = [None if each is None else each[rows] for each in (*taken, output, final)]
        return append_steps([self._writers[row] for row in rows], *kept)

    def state(self) -> Any:
        """Nothing: the episodes are enough."""
        return None

    def restore(self, episodes: "Sequence[OpenEpisode]", state: Any) -> None:
        """Writes the steps of the open episodes again."""
        for writer, episode in zip(self._writers, episodes, strict=True):
            writer.start(episode.frames[0])
            for t, (action, reward) in enumerate(zip(episode.action, episode.reward.tolist(), strict=True)):
                writer.append(action, reward, episode.frames[t + 1], False, False)
            writer.take()


def table_signature(spec: EnvironmentSpec) -> Signature:
    """Signature of a table for an environment's experience."""
    dimensions = (spec.actions,) if spec.continuous else (len(spec.branches),) if spec.branches else ()
    action_dtype = "float32" if spec.continuous else "int64"
    return Signature(spec.observation_shape, spec.observation_dtype, dimensions, action_dtype, spec.stack)
