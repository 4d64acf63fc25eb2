"""Acts in environments and sends the experience."""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.config import Algorithm
from headrace.algorithms.writers import TransitionWriters, table_signature
from headrace.environments import FrameStack, make_batch, require_spec
from headrace.errors import EnvironmentFault, require
from headrace.fields import MOST_STEPS, check_types, require_positive
from headrace.networks.precision import Precision
from headrace.parameters.memory import Memory
from headrace.parameters.refresh import PullUnit
from headrace.roles.clock import PhaseClock
from headrace.types import Array, EnvironmentSpec, EnvironmentStep

__all__ = ["Actor", "ActorSettings"]


@dataclass(frozen=True)
class ActorSettings:
    """Settings of one actor."""

    environment: str
    seed: int
    first_environment: int
    """Number of this actor's first environment among those of all actors; determines the seeds of its episodes."""
    exploration: tuple[float, ...]
    """Exploration of each environment [E], such as its epsilon or sigma."""
    algorithm: Algorithm
    chunk_steps: int
    spec: EnvironmentSpec
    """The environment's spec on the learner's machine."""
    values: bool = False
    """Whether to send initial priorities computed from the actor's Q values."""
    pull_period: float = 400
    """Interval between polls for a newer policy, in pull units; steps are summed over this actor's environments."""
    pull_unit: PullUnit = "steps"
    precision: Precision = "fp32"
    communication_bits: int = 32
    """Below 32 the policy arrives as packed parameters, from which the actor builds a policy of the given precision."""
    run_id: str = ""
    """Run that the steps belong to. A run ignores steps of another run with the same name."""

    def __post_init__(self) -> None:
        check_types(self)
        require("exploration", self.exploration, len(self.exploration) > 0, "one number or more")
        require_positive(self, "chunk_steps", "pull_period", most=MOST_STEPS)
        require("first_environment", self.first_environment, 0 <= self.first_environment < 2**32, "from 0 to 2^32 - 1")
        require("seed", self.seed, self.seed >= 0, "0 or more")
        require("communication_bits", self.communication_bits, 2 <= self.communication_bits <= 32, "from 2 to 32")


class Actor:
    """E environments stepped together, with batched inference, exploration and the algorithm's chunk writers.

    `output` maps observations [E, *input] to the policy's outputs [E, *]; that of a recurrent policy belongs to
    `memory`. `push` takes all chunks that one step finished, and may wait. `push_transitions`, if given, takes chunks
    of one-step transitions with a discount of 1 and may wait too. One thread.
    """

    def __init__(
        self,
        settings: ActorSettings,
        output: Callable[[Array], NDArray[np.float32]],
        push: Callable[..., object],
        clock: PhaseClock,
        push_transitions: Callable[..., object] | None = None,
        memory: Memory | None = None,
    ) -> None:
        count = len(settings.exploration)
        algorithm = settings.algorithm.replay
        assert algorithm is not None
        self._settings = settings
        self._algorithm = algorithm
        self._output = output
        self._push = push
        self._clock = clock
        self.environments = make_batch(
            settings.environment,
            count,
            seed=settings.seed,
            first_index=settings.first_environment,
            clip_rewards=algorithm.clip_rewards,
            beat=clock.beat,
        )
        spec = self.environments.spec
        try:
            require_spec(settings.environment, spec, settings.spec)
        except EnvironmentFault:
            self.environments.close()
            raise
        seed = [settings.seed, settings.first_environment]
        self.exploration = algorithm.make_exploration(settings.exploration, seed, spec)
        self._memory = memory
        self._stack = FrameStack(count, spec)
        first, steps = settings.first_environment, settings.chunk_steps
        self._writers = [algorithm.make_writers(spec, steps, count, first)]
        self._push_transitions = push_transitions
        if push_transitions:  # one-step transitions with discount 1, or 0 if the step terminated the episode
            signature = table_signature(spec)
            self._writers.append(TransitionWriters(signature, count, first, n_step=1, discount=1.0, chunk_steps=steps))
        self._input: Array | None = None

    @property
    def count(self) -> int:
        """E, the number of environments."""
        return len(self.environments)

    def set_policy_version(self, version: int) -> None:
        """Sets the policy version that the following steps are stamped with."""
        for writers in self._writers:
            writers.set_policy_version(version)

    def step(self) -> int:
        """One step of each environment; pushes finished chunks. Returns how many of them took an action."""
        if self._input is None:
            self._clock.enter("environment")
            self._input = self._start()
        self._clock.enter("inference")
        before = self._memory.state if self._memory else None
        output = self._output(self._input)
        action = self.exploration.choose(output)
        self._clock.enter("environment")
        try:
            step = self.environments.step(action)
        except BaseException:
            if self._memory and before is not None:
                self._memory.state = before  # the step does not count
            raise
        final = self._final_values(step) if self._settings.values else None
        self._clock.enter("push")
        self._write(before, output, action, step, final)
        self._clock.enter("other")
        self._input = self._stack.push(step.next_start, step.began)
        if self._memory:
            self._memory.reset(step.began)
        return step.taken

    def state(self) -> dict[str, Any]:
        """JSON-able state that resumes this actor at the same point: environments and random state."""
        return {
            "environments": self.environments.state(),
            "random": self.exploration.random.bit_generator.state,
            "writers": [writers.state() for writers in self._writers],
            "memory": self._memory.state.tolist() if self._memory else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned, by writing each environment's open episode again.

        Chunks completed by this were sent before and are dropped.
        """
        self.exploration.random.bit_generator.state = state["random"]
        self._clock.restart("environment")
        episodes = self.environments.restore(state["environments"])
        self._clock.restart("other")  # repeating episodes is no acting
        for writers, kept in zip(self._writers, state["writers"], strict=True):
            writers.restore(episodes, kept)
        if self._memory:
            self._memory.state = np.array(state["memory"], np.float32)
            self._memory.reset(np.array([len(episode.action) == 0 for episode in episodes]))
        self._input = self._stack.restore([episode.frames for episode in episodes])

    def close(self) -> None:
        """Closes the environments."""
        try:
            self._clock.enter("environment")
        finally:  # a simulated role may be killed there
            self.environments.close()
        self._clock.enter("other")

    def _start(self) -> Array:
        observation = self.environments.start()
        for writers in self._writers:
            writers.start(observation)
        if self._memory:
            self._memory.start(self.count)
        return self._stack.start(observation)

    def _final_values(self, step: EnvironmentStep) -> NDArray[np.float32] | None:
        """max_a Q [E] of the last observations of truncated episodes; None if no episode was truncated."""
        truncated = np.flatnonzero(step.truncated).tolist()
        if not truncated:
            return None
        self._clock.enter("inference")
        stacks = np.stack([self._stack.with_final(step.observation[index], index) for index in truncated])
        values = np.full(self.count, nan, np.float32)
        values[truncated] = self._output(stacks).max(1)
        return values

    def _write(
        self,
        memory: NDArray[np.float32] | None,
        output: NDArray[np.float32],
        action: Array,
        step: EnvironmentStep,
        final: NDArray[np.float32] | None,
    ) -> None:
        """Writes the step, also as one-step transitions; these have no priority, so they get the table's largest."""
        writers, *transition_writers = self._writers
        values = (output, final) if self._settings.values else ()
        if chunks := writers.append(memory, action, step, *values):
            self._push(*chunks)
        for each in transition_writers:
            assert self._push_transitions is not None
            if chunks := each.append(None, action, step):
                self._push_transitions(*chunks)
