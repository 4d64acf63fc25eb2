"""Learns a world model from real transitions and sends simulated ones (Sutton 1990, Dyna)."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.dyna_q.config import DynaQ
from headrace.algorithms.dyna_q.model_learner import ModelLearner
from headrace.algorithms.dyna_q.simulation import simulate, write_chunks
from headrace.algorithms.exploration import EpsilonGreedy
from headrace.algorithms.writers import table_signature
from headrace.clock import monotonic, spend
from headrace.errors import ClosedError
from headrace.networks.precision import Precision
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder
from headrace.replay import BatchBuffer, ReplayTable
from headrace.roles.base import Role, RoleContext
from headrace.roles.handles import PolicyHandle, TableHandle
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import Figures, Planned
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["Planner", "PlannerRole", "PlannerSettings"]

_POLL_SECONDS = 0.01
_ROWS = 128
"""Number of simulations in one batch."""
_CATCH_UP_STEPS = 10_000
"""Maximum environment steps before its start for which a planner trains its model: a restarted planner must catch up.
"""


@dataclass(frozen=True)
class PlannerSettings:
    """Settings of one planner."""

    spec: EnvironmentSpec
    algorithm: DynaQ
    seed: int
    precision: Precision = "fp32"
    communication_bits: int = 32


class Planner:
    """A world model that is trained and rolled out in proportion to the environment steps. One thread.

    `transitions` has one-step transitions; if it is prioritized, their priorities become their |TD error|. `push` takes
    any number of simulated chunks. `output` gives Q values [B, A] of states.
    """

    def __init__(
        self,
        settings: PlannerSettings,
        transitions: ReplayTable,
        push: Callable[..., object],
        output: Callable[[Array], NDArray[np.float32]],
        *,
        index: int = 0,
        generation: int = 0,
    ) -> None:
        config = self._config = settings.algorithm
        self.simulated = 0
        """Number of simulated transitions sent."""
        self.dropped = 0
        """Number of simulations that ended because the ensemble members disagreed."""
        self.gated = 0
        """Number of simulated steps skipped because the model's error was too high."""
        seed = [settings.seed, index, generation]
        model_seed = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        self.learner = ModelLearner(config, settings.spec, model_seed)
        self._signature = table_signature(settings.spec)
        self._index = index
        self._transitions = transitions
        self._push = push
        self._output = output
        self._exploration = EpsilonGreedy([config.rollout_epsilon] * _ROWS, seed)
        self._training = BatchBuffer(self._signature, config.ensemble_size * config.model_batch_size)
        self._starts = BatchBuffer(self._signature, _ROWS)
        self._begin: int | None = None
        self._last = 0  # environment steps at the last call
        self._has_trained = False  # since the last round of simulations
        self._simulated_to = 0.0  # environment steps that simulation has caught up with

    def advance(self, steps: int) -> bool:
        """One model update or one round of simulations, if one is due at this number of environment steps.

        If both are due, they alternate, so that a planner that falls behind does some of each.
        """
        config = self._config
        if self._begin is None:
            self._begin = max(0, steps - _CATCH_UP_STEPS)
            self._simulated_to = float(steps)
        elif steps < self._last:  # a restarted server counts what it has kept: go on from there
            self._begin -= self._last - steps
            self._simulated_to -= self._last - steps
        self._last = steps
        trained = (self.learner.version + 1) * config.model_batch_size / config.model_samples_per_step
        round_steps = _ROWS * config.rollout_steps * config.planners / config.simulated_per_step
        training, simulation = trained <= steps - self._begin, self._simulated_to + round_steps <= steps
        if simulation and (self._has_trained or not training) and self._transitions.sample_into(self._starts, 0.0, 0.0):
            self._simulated_to += round_steps
            self._has_trained = False
            self._simulate(self._starts.arrays)
            return True
        if training and self._transitions.sample_into(self._training, 1.0, 0.0):
            self._has_trained = True
            self.learner.learn(self._training.arrays)
            spend("model")
            return True
        return False

    def figures(self) -> Planned:
        """Totals since the start, and the model's error."""
        return {
            "model_version": self.learner.version,
            "model_error": self.learner.error if np.isfinite(self.learner.error) else None,
            "simulated": self.simulated,
            "dropped": self.dropped,
            "gated": self.gated,
        }

    def _simulate(self, starts: Batch) -> None:
        config = self._config
        if config.search_control == "prioritized":
            self._transitions.update_priorities(starts.key, self._td_error(starts))
        if not self.learner.error <= config.model_error_limit:  # also true for a nan error
            self.gated += _ROWS * config.rollout_steps
            return
        rollouts = simulate(
            self.learner.model,
            starts.observation,
            self._output,
            self._exploration,
            config.rollout_steps,
            config.disagreement_limit,
        )
        spend("rollouts")
        self.dropped += rollouts.dropped
        self._push(*write_chunks(rollouts, self._signature, config, self.learner.version, self._index))
        self.simulated += int(rollouts.length.sum())

    def _td_error(self, batch: Batch) -> NDArray[np.float32]:
        """|r + gamma max_a Q(s_{t+1}, a) - Q(s_t, a_t)| of the policy [B]."""
        chosen = self._output(batch.observation)[np.arange(len(batch.action)), batch.action]
        following = self._output(batch.next_observation).max(1)
        error: NDArray[np.float32] = np.abs(
            batch.reward + np.float32(self._config.discount) * batch.discount * following - chosen
        )
        return error


@dataclass(frozen=True)
class PlannerRole(Role):
    """Learns a world model from transitions and sends simulated ones; reports about once a second, and when stopped."""

    kind: ClassVar[str] = "planner"
    ends_with_training: ClassVar[bool] = True

    settings: PlannerSettings
    policy: PolicyHandle
    transitions: TableHandle
    simulated: TableHandle

    @property
    def elastic(self) -> bool:
        """True: the others plan too, and without any the run learns from real experience."""
        return True

    def run(self, context: RoleContext) -> None:
        """Plans until stopped or until the server is gone."""
        server, transitions, stop = context.connect(), context.table(self.transitions), context.stop
        sender = context.connect()  # its requests wait while the server holds what it has posted
        decoder = PolicyDecoder(self.settings.precision, self.settings.communication_bits)
        policy: Policy | None = None
        planner: Planner | None = None

        def figures() -> Figures:
            return {"planned": planner.figures()} if planner else {}

        alive = Heartbeat(self, server, stop, figures)

        def push(*chunks: bytes) -> None:
            while not sender.post(self.simulated.name, *chunks, wait=False):  # an evaluation may hold the tables
                alive()
                stop.wait(_POLL_SECONDS)

        def inserts() -> int:
            return int(transitions.stats()["inserts"])

        steps, next_look = 0, -math.inf
        with contextlib.suppress(ClosedError):
            while True:
                alive()
                found = server.fetch(self.policy.name, policy.version if policy else 0)
                if found and policy:
                    policy.load(decoder.decode(found[1]), found[0])
                    spend("session")
                elif found:
                    policy = Policy(decoder.decode(found[1]), found[0])
                    spend("session")
                    planner = Planner(
                        self.settings,
                        transitions,
                        push,
                        policy.output,
                        index=self.index,
                        generation=self.generation,
                    )
                if planner and monotonic() >= next_look:
                    steps = inserts()
                    next_look = monotonic() + _POLL_SECONDS
                if planner is None or not planner.advance(steps):  # all that is due at these steps is done
                    stop.wait(_POLL_SECONDS)
        with contextlib.suppress(ClosedError):
            alive.send(context.connect(), figures())
