"""Roles and statistics of workers that act and learn."""

import math
from pathlib import Path
from statistics import fmean
from typing import Any

from headrace.clock import monotonic, sleep
from headrace.errors import DivergenceError, ReplayError
from headrace.gradients.measured import STALENESS
from headrace.replay import Experience, ReplayTable
from headrace.roles.base import Role
from headrace.roles.clock import LEARNER_PHASES, PhaseClock
from headrace.roles.gate import GateKeeper, State
from headrace.roles.handles import REPLAY
from headrace.roles.messages import Learned, Report
from headrace.roles.remote_worker import WorkerRole, WorkerSettings, updater_seed
from headrace.roles.totals import Counts, Totals
from headrace.servers import RunServer
from headrace.topologies.base import Learning, Program, RunContext
from headrace.topologies.experience import add_table
from headrace.topologies.workers.config import Workers

__all__ = ["WorkersProgram", "worker_settings"]

_NEWS_SECONDS = 1.0
"""Interval between two publications of the steps over all workers."""


class WorkersProgram(Program):
    """The workers' roles, and their statistics in the training process, which does not learn.

    `generation` is that of the workers' first start; a resumed run starts above all earlier ones.
    """

    def __init__(self, config: Workers, context: RunContext, generation: int) -> None:
        assert context.vectors is not None
        self.saves_experience = False
        self.services: list[Role] = []
        self._vectors = context.vectors
        self._lost_before = 0
        shared = config.shares_replay(context.algorithm)
        environments = config.acting_processes * config.envs_per_worker
        table = add_table(context, environments, config.chunk_steps) if shared else None
        replay = REPLAY if shared else None
        self.actors: list[Role] = [
            WorkerRole(index, worker_settings(config, context, index), replay, generation=generation)
            for index in range(config.acting_processes)
        ]
        context.server.begin(fresh=context.fresh)
        self._learning = _Learning()
        self.learner: Learning = self._learning
        self._replay = _WorkersExperience(context.server, table, context.algorithm.replay is not None)
        self.table: Experience = self._replay
        self._next_news = 0.0
        self._waited_seconds = 0.0

    @property
    def waited_seconds(self) -> float:
        """Seconds in which step() has waited for the server to take its publications."""
        return self._waited_seconds

    def step(self, timeout_seconds: float) -> None:
        """Waits: the workers proceed on their own."""
        self._learning.see(self._vectors.version)
        now = monotonic()
        if now >= self._next_news:
            self._next_news = now + _NEWS_SECONDS
            self._replay.publish_gate()
            self._waited_seconds += monotonic() - now
        sleep(timeout_seconds)

    def receive(self, report: Report) -> None:
        """Processes a worker's totals."""
        self._learning.receive(report["writer"], report["index"], report["learned"])
        self._replay.receive(report)

    def figures(self) -> dict[str, Any] | None:
        """Gradient statistics, updates lost with servers, and the turns that exceeded the maximum wait of a hold."""
        late_turns = self._replay.totals["late_turns"]
        return {**self._learning.figures(), "updates_lost": self._updates_lost, "late_turns": late_turns}

    def state(self) -> dict[str, Any]:
        """Sums over all workers."""
        return {
            "steps": self._learning.steps,
            "learning": self._learning.totals.sums,
            "replay": self._replay.totals.sums,
            "updates_lost": self._updates_lost,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned."""
        self._learning.steps_before = max(0, state["steps"] - self._vectors.version)
        self._learning.totals.sums = state["learning"]
        self._replay.totals.sums = state["replay"]
        self._lost_before = state["updates_lost"]
        self._replay.publish_gate()

    def give_up(self) -> None:
        """Ends waiting for the parameters."""
        self._vectors.give_up()

    def close(self) -> None:
        """Closes the parameters; the launcher ends the workers."""
        self._vectors.close()

    @property
    def _updates_lost(self) -> int:
        """Over all starts of the run."""
        return self._lost_before + self._vectors.updates_lost


def worker_settings(config: Workers, context: RunContext, index: int) -> WorkerSettings:
    """Settings of one worker; raises what Workers.table_options() raises.

    Replay settings are totals over all workers. Each worker gets an equal share of the capacity and of the transitions
    before learning starts (at least one batch). Exploration is interleaved over workers, as over actors of `apex`, so
    that each has environments that explore much and little.
    """
    assert context.vectors is not None
    algorithm, workers = context.algorithm, config.acting_processes
    exploration, table = [1.0] * config.envs_per_worker, None  # a stochastic policy is not near greedy
    replay = algorithm.replay
    if replay is not None:
        exploration = list(replay.serial_exploration(workers * config.envs_per_worker, 0)[index::workers])
        if not config.shares_replay(algorithm):
            table = config.table_options(replay, context.spec, context.server, context.seed + index)
    acting = context.actor_settings(index * config.envs_per_worker, exploration, config.chunk_steps)
    seed = updater_seed(context.seed, index)
    return WorkerSettings(acting, workers, context.vectors.handles, table, seed, context.engine)


class _Learning:
    """Learner statistics over all workers, from their reports; implements `Learning`."""

    def __init__(self) -> None:
        self.steps = 0
        self.steps_before = 0
        """Updates that the vectors don't count: a server had lost them when the checkpoint was written."""
        self.loss = math.nan
        self.staleness = 0.0
        self.clock = PhaseClock(LEARNER_PHASES)
        self.totals = Totals()
        self._losses: dict[int, float] = {}

    @property
    def version(self) -> int:
        """Version of the current policy, which every worker sees directly."""
        return self.steps + 1

    def publish(self) -> None:
        """No effect: the evaluator is sent the policy, and no other process needs it."""

    def see(self, version: int) -> None:
        """Takes a version of the first vector, which is one of the last ones."""
        self.steps = max(self.steps, self.steps_before + version)

    def receive(self, writer: str, worker: int, learned: Learned) -> None:
        """Processes a worker's totals; raises DivergenceError if its loss was not finite."""
        if learned["diverged"]:
            raise DivergenceError(learned["diverged"])
        self.see(learned["totals"]["version"])
        totals = {name: total for name, total in learned["totals"].items() if name != "version"}
        increments = self.totals.add(writer, totals)
        self.clock.seconds = {
            phase: seconds + increments["seconds"][phase] for phase, seconds in self.clock.seconds.items()
        }
        if learned["loss"] is not None:
            self._losses[worker] = learned["loss"]
            self.loss = fmean(self._losses.values())
        gradients = sum(self.totals["staleness"].values())
        self.staleness = self.totals["staleness_sum"] / gradients if gradients else 0.0

    @property
    def mean_staleness(self) -> float | None:
        """That of all gradients, as `staleness`."""
        return self.staleness if self.steps else None

    def resume(self, steps: int, mean_staleness: float | None) -> None:
        """Continues after so many updates of earlier starts, with their staleness until a worker reports."""
        self.steps, self.staleness = steps, mean_staleness or 0.0

    def figures(self) -> dict[str, Any]:
        """Gradient statistics of the workers."""
        names = ("updates", "accepted", "dropped", "refused", "lock_wait_seconds", "pull_seconds", "apply_seconds")
        staleness = self.totals["staleness"] or dict.fromkeys(STALENESS, 0)
        return {**{name: self.totals[name] for name in names}, "staleness": staleness}


class _WorkersExperience(Experience):
    """The workers' experience from their reports, and the gate that pauses them.

    `table` is the shared table in the server, if there is one.
    """

    def __init__(self, server: RunServer, table: ReplayTable | None, replays: bool) -> None:
        self.totals = Totals()
        self._table = table
        self._replays = replays
        self._held: dict[int, Counts] = {}  # contents of each worker's replay
        self._gate = GateKeeper(server)
        self.publish_gate()

    def receive(self, report: Report) -> None:
        """Processes a worker's totals."""
        learned, totals = report["learned"], report["learned"]["totals"]
        counts = {"steps": report["acted"]["steps"], "samples": totals["samples"], "inserts": totals["inserts"]}
        self.totals.add(report["writer"], counts)
        self._held[report["index"]] = learned["replay"]
        self._gate.expect(report["index"])

    def publish_gate(self) -> None:
        """Publishes the gate with the steps over all workers."""
        self._gate.publish(int(self.totals["steps"]))

    def stats(self) -> dict[str, float]:
        """Counts, bytes and samples per insert, over all workers."""
        if self._table is not None:
            return self._table.stats()
        if not self._replays:
            return super().stats()
        inserts = self.totals["inserts"]
        held = {
            name: sum(each.get(name, 0.0) for each in self._held.values())
            for name in ("size", "capacity", "used_bytes")
        }
        return {"samples_per_insert": self.totals["samples"] / inserts if inserts else 0.0, **held}

    def set_paused(self, paused: bool) -> None:
        """Pauses the workers and waits until they are paused; or resumes them."""
        self.worked_on = self._move_gate("held" if paused else "open")

    def save(self, path: str | Path) -> None:
        """Raises ReplayError: the workers have the experience."""
        raise ReplayError(f"no snapshot can be written to {path}; the workers have the experience")

    def restore(self, path: str | Path) -> None:
        """Raises ReplayError: the workers have the experience."""
        raise ReplayError(f"no snapshot can be read from {path}; the workers have the experience")

    def close(self) -> None:
        """Ends the workers."""
        self._move_gate("closed")
        if self._table is not None:
            self._table.close()

    def _move_gate(self, state: State) -> float:
        worked_on = self._gate.move(state, int(self.totals["steps"]))
        self.totals.add("hold", {"late_turns": self._gate.late_turns})
        return worked_on
