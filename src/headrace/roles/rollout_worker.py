"""Acts and learns in turn, on-policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Updater
from headrace.algorithms.config import OnPolicy
from headrace.clock import monotonic
from headrace.environments import Episode, FrameStack, make_batch
from headrace.roles.clock import ACTOR_PHASES, PhaseClock
from headrace.roles.learner import Learner
from headrace.types import Array, Batch, EnvironmentStep

__all__ = ["RolloutWorker"]


class RolloutWorker:
    """E environments stepped together, T steps for each update; implements `roles.base.Worker`.

    Among the environments of all workers, its own are numbered from `first_environment`. A turn is one rollout with the
    parameters at its beginning, then the update from this rollout.
    """

    def __init__(
        self,
        environment: str,
        count: int,
        algorithm: OnPolicy,
        updater: Updater,
        *,
        seed: int,
        first_environment: int = 0,
        clock: PhaseClock | None = None,
    ) -> None:
        self.steps = 0
        self.clock = clock or PhaseClock(ACTOR_PHASES, count)
        self._algorithm = algorithm
        self._updater = updater
        self._policy = algorithm.rollout_policy(updater)
        self._environments = make_batch(
            environment,
            count,
            seed=seed,
            first_index=first_environment,
            clip_rewards=algorithm.clip_rewards,
            beat=self.clock.beat,
        )
        self._stack = FrameStack(count, self._environments.spec)
        self._random = np.random.Generator(np.random.PCG64([seed, first_environment]))
        self._input: Array | None = None
        self._batch: Batch | None = None
        self.learner = Learner(updater, self._take_batch, None, None, algorithm.publish_period)

    @property
    def count(self) -> int:
        """E, the number of environments."""
        return len(self._environments)

    @property
    def exploration(self) -> list[float]:
        """1 for each environment."""
        return [1.0] * self.count

    def step(self) -> None:
        """One turn; never waits."""
        self._batch = self._roll_out()
        while not len(self._batch.reward):  # every environment made its reset
            self._batch = self._roll_out()
        middle = monotonic()
        self.learner.clock.restart("other")  # since its last update, time was the actor's
        self.steps += len(self._batch.reward)
        self.learner.step(0.0)
        self.clock.skip(monotonic() - middle)  # which was the learner's

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        return self._environments.take_episodes()

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the actor's clock: the learner's is restarted in each turn."""
        self.clock.skip(seconds)

    def state(self) -> dict[str, Any]:
        """Environments, random state and steps."""
        return {
            "environments": self._environments.state(),
            "random": self._random.bit_generator.state,
            "steps": self.steps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned, by repeating each environment's open episode."""
        self._random.bit_generator.state = state["random"]
        self.steps = state["steps"]
        self.clock.restart("environment")
        episodes = self._environments.restore(state["environments"])
        self.clock.restart("other")  # repeating episodes is no acting
        self._input = self._stack.restore([episode.frames for episode in episodes])

    def close(self) -> None:
        """Closes the environments."""
        try:
            self.clock.enter("environment")
        finally:  # a simulated role may be killed there
            self._environments.close()
        self.clock.enter("other")

    def _take_batch(self, timeout_seconds: float) -> Batch | None:
        batch, self._batch = self._batch, None
        return batch

    def _roll_out(self) -> Batch:
        """T steps of E environments as T E transitions whose rewards are the returns, bootstrap included.

        Skipped steps are left out.
        """
        self.clock.enter("pull")
        version = self._updater.pull() + 1
        if self._input is None:
            self.clock.enter("environment")
            self._input = self._stack.start(self._environments.start())
        observations, actions = [], []
        shape = (self._algorithm.n_step, self.count)
        reward, discount = np.empty(shape, np.float32), np.empty(shape, np.float32)
        bootstrap = np.full(shape, np.nan, np.float32)
        taken = np.ones(shape, np.bool_)
        for t in range(len(reward)):
            self.clock.enter("inference")
            action = self._policy.sample(self._input, self._random)
            observations.append(self._input)
            actions.append(action)
            self.clock.enter("environment")
            step = self._environments.step(action.clip(-1, 1) if self._environments.spec.continuous else action)
            self.clock.enter("other")
            reward[t] = step.reward
            if step.skipped is not None:
                taken[t] = ~step.skipped
            discount[t] = np.where(step.terminated, 0, self._algorithm.discount)
            self._value_cut_off(step, bootstrap[t])
            self._input = self._stack.push(step.next_start, step.began)
        self.clock.enter("inference")
        bootstrap[-1] = np.where(np.isnan(bootstrap[-1]), self._policy.values(self._input), bootstrap[-1])
        self.clock.enter("other")
        returns = self._policy.returns(reward, discount, bootstrap)
        observation, action, kept = np.concatenate(observations), np.concatenate(actions), taken.reshape(-1)
        if not kept.all():
            observation, action = observation[kept], action[kept]
        return _batch(observation, action, returns.reshape(-1)[kept], version)

    def _value_cut_off(self, step: EnvironmentStep, bootstrap: NDArray[np.float32]) -> None:
        """Fills in the values [E] of the last observations of truncated episodes; keeps the other entries."""
        truncated = np.flatnonzero(step.truncated).tolist()
        if truncated:
            self.clock.enter("inference")
            finals = np.stack([self._stack.with_final(step.observation[index], index) for index in truncated])
            bootstrap[truncated] = self._policy.values(finals)
            self.clock.enter("other")


def _batch(observation: Array, action: Array, returns: NDArray[np.float32], version: int) -> Batch:
    """Transitions [B] that need no bootstrap: their discount is 0, so the next observation does not matter."""
    count = len(returns)
    return Batch(
        observation=observation,
        next_observation=observation,
        action=action,
        reward=returns,
        discount=np.zeros(count, np.float32),
        weight=np.ones(count, np.float32),
        probability=np.ones(count, np.float32),
        key=np.zeros(count, np.uint64),
        policy_version=np.full(count, version, np.uint64),
    )
