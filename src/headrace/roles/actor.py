"""Acts in environments and sends what happened."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import ChunkWriter, Signature
from headrace.algorithms.dqn.exploration import EpsilonGreedy
from headrace.environments import EnvironmentBatch, FrameStack
from headrace.roles.clock import PhaseClock
from headrace.types import Array, EnvironmentSpec, EnvironmentStep

__all__ = ["ACTOR_PHASES", "Actor", "ActorSettings", "table_signature"]

ACTOR_PHASES = ("environment", "inference", "pull", "load", "push", "other")


@dataclass(frozen=True)
class ActorSettings:
    """What one actor needs to know; travels as JSON."""

    environment: str
    seed: int
    index: int
    first_environment: int
    """Number of this actor's first environment among those of all actors; decides its episodes' seeds."""
    epsilon: tuple[float, ...]
    """One for each environment [E]."""
    n_step: int
    discount: float
    chunk_steps: int
    clip_rewards: bool
    values: bool
    """Send initial priorities from the actor's own Q values."""
    pull_period: int
    """Environment steps, all of this actor's environments together, between looks for newer parameters."""
    run_id: str = ""
    """Whose steps these are: a run counts none that were made for another one of its name."""

    def to_json(self) -> str:
        """The settings as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> "ActorSettings":
        """Reads what to_json() wrote."""
        record = json.loads(text)
        return ActorSettings(**{**record, "epsilon": tuple(record["epsilon"])})


def table_signature(spec: EnvironmentSpec) -> Signature:
    """What a table must hold for an environment's experience."""
    return Signature(spec.observation_shape, spec.observation_dtype, (), "int64", spec.stack)


class Actor:
    """E environments stepped together: batched Q values, epsilon-greedy actions, a chunk writer for each.

    `q_values` maps observations [E, *input] to [E, A]; `push` takes finished chunks and may wait. One thread.
    """

    def __init__(
        self,
        settings: ActorSettings,
        q_values: Callable[[Array], NDArray[np.float32]],
        push: Callable[[bytes], object],
        clock: PhaseClock,
    ) -> None:
        count = len(settings.epsilon)
        self._settings = settings
        self._q_values = q_values
        self._push = push
        self._clock = clock
        self.environments = EnvironmentBatch(
            settings.environment,
            count,
            seed=settings.seed,
            first_index=settings.first_environment,
            clip_rewards=settings.clip_rewards,
            beat=clock.beat,
        )
        self.exploration = EpsilonGreedy(settings.epsilon, [settings.seed, settings.first_environment])
        self._signature = table_signature(self.environments.spec)
        self._stack = FrameStack(count, self.environments.spec)
        self._writers = [self._writer(settings.first_environment + index) for index in range(count)]
        self._input: Array | None = None

    @property
    def count(self) -> int:
        """E."""
        return len(self._writers)

    def set_policy_version(self, version: int) -> None:
        """The version that chunks are stamped with from now on."""
        for writer in self._writers:
            writer.set_policy_version(version)

    def step(self) -> None:
        """One step of each environment; finished chunks are pushed."""
        if self._input is None:
            self._clock.enter("environment")
            self._input = self._start()
        self._clock.enter("inference")
        q = self._q_values(self._input)
        action = self.exploration.choose(q)
        self._clock.enter("environment")
        step = self.environments.step(action)
        final = self._final_values(step) if self._settings.values else None
        self._clock.enter("push")
        self._write(q, action, step, final)
        self._clock.enter("other")
        self._input = self._stack.push(step.next_start, step.terminated | step.truncated)

    def state(self) -> dict[str, Any]:
        """What resumes this actor at the same place: environments and random state, JSON-able."""
        return {"environments": self.environments.state(), "random": self.exploration.random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to where state() was taken, by replaying each environment's open episode into its writer.

        Chunks that the replay finishes were sent before and are dropped here.
        """
        self.exploration.random.bit_generator.state = state["random"]
        self._clock.enter("environment")
        replays = self.environments.restore(state["environments"])
        self._clock.enter("other")
        for writer, replay in zip(self._writers, replays, strict=True):
            writer.start(replay.frames[0])
            for t, (action, reward) in enumerate(zip(replay.action.tolist(), replay.reward.tolist(), strict=True)):
                writer.append(action, reward, replay.frames[t + 1], False, False)
            writer.take()
        self._input = self._stack.restore([replay.frames for replay in replays])

    def close(self) -> None:
        """Closes the environments."""
        self.environments.close()

    def _writer(self, environment: int) -> ChunkWriter:
        settings = self._settings
        return ChunkWriter(
            self._signature,
            n_step=settings.n_step,
            discount=settings.discount,
            chunk_steps=settings.chunk_steps,
            actor=environment,
        )

    def _start(self) -> Array:
        observation = self.environments.start()
        for index, writer in enumerate(self._writers):
            writer.start(observation[index])
        return self._stack.start(observation)

    def _final_values(self, step: EnvironmentStep) -> NDArray[np.float32] | None:
        """max_a Q [E] of the last observations of truncated episodes; None where there are none."""
        truncated = np.flatnonzero(step.truncated).tolist()
        if not truncated:
            return None
        self._clock.enter("inference")
        stacks = np.stack([self._stack.with_final(step.observation[index], index) for index in truncated])
        values = np.full(self.count, nan, np.float32)
        values[truncated] = self._q_values(stacks).max(1)
        return values

    def _write(
        self,
        q: NDArray[np.float32],
        action: NDArray[np.int64],
        step: EnvironmentStep,
        final: NDArray[np.float32] | None,
    ) -> None:
        if self._settings.values:
            chosen = q[np.arange(len(q)), action].tolist()
            greedy = q.max(1).tolist()
        else:
            chosen = greedy = [nan] * self.count
        actions, rewards = action.tolist(), step.reward.tolist()
        terminated, truncated = step.terminated.tolist(), step.truncated.tolist()
        for index, writer in enumerate(self._writers):
            writer.append(
                actions[index],
                rewards[index],
                step.observation[index],
                terminated[index],
                truncated[index],
                chosen[index],
                greedy[index],
                nan if final is None else float(final[index]),
            )
            if terminated[index] or truncated[index]:
                writer.start(step.next_start[index])
            if writer.finished:
                for chunk in writer.take():
                    self._push(chunk)
