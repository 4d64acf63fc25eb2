"""Runs a program of roles: the main loop, its stopping rules, evaluations, checkpoints and records."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.algorithms.engine import torch_threads
from headrace.clock import monotonic, random_bits, simulated_cores, sleep
from headrace.errors import (
    ClosedError,
    DivergenceError,
    LaunchError,
    ReplayError,
    ServerError,
    StorageError,
)
from headrace.launch.base import Launcher
from headrace.launch.guard import Guard
from headrace.machine import available_cores
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.roles.base import GENERATIONS_PER_START
from headrace.roles.evaluator import EvaluatorRole
from headrace.roles.remote_worker import updater_seed
from headrace.roles.separate_role import RunNotice
from headrace.servers import Endpoint, blamed_server, open_server, shown
from headrace.settings import RunConfig
from headrace.topologies.experience import transitions_to_start
from headrace.training.assembly import assemble
from headrace.training.callbacks import Callbacks
from headrace.training.checkpoint import Checkpoint
from headrace.training.checkpoint_schedule import CheckpointSchedule
from headrace.training.continuation import restore
from headrace.training.evaluation_schedule import EvaluationSchedule
from headrace.training.failures import Failures
from headrace.training.hang_watch import HangWatch
from headrace.training.interrupts import Interrupts
from headrace.training.progress_records import ProgressRecords
from headrace.training.reports import Reports
from headrace.training.role_events import RoleEvents
from headrace.training.run_publisher import RunPublisher
from headrace.training.separate_actors import how_to_start
from headrace.training.session import open_session
from headrace.training.summary import summarize
from headrace.training.supervision import Supervisor
from headrace.training.tick_schedule import TickSchedule

__all__ = ["Trainer"]

_SAVE_SECONDS = 5.0
"""How long other servers have to give what a checkpoint needs, after the run's server was given up."""
_STEP_TIMEOUT_SECONDS = 0.05
_SHORTEST_STEP_SECONDS = 0.001
"""Less than the resolution of a clock would never pass in simulated time."""
_EVALUATION_POLL_SECONDS = 0.005

LauncherFactory = Callable[[Endpoint, Path], Launcher]


class Trainer:
    """One start of a run, from scratch or from a checkpoint. One thread.

    `launcher` creates the launcher of the roles from the server's endpoint and the directory for logs. Without
    `local_actors` neither actors nor workers are started: the server offers their slots to separately started ones.
    `callbacks` are called in this thread.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDirectory,
        display: Display,
        *,
        checkpoint: Checkpoint | None = None,
        launcher: LauncherFactory | None = None,
        local_actors: bool = True,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._config = config
        self._run = run
        self._callbacks = callbacks or Callbacks()
        run.add_sink(self._callbacks)
        self._display = display
        self._failures = Failures(run, display)
        self._checkpoint = checkpoint
        state = checkpoint.state if checkpoint else None
        resumptions = state.resumptions + 1 if state else 0
        self._interrupts = Interrupts(self._give_up)
        self._watches = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:  # if a later step fails, nothing of the run remains on the server
            undo.enter_context(self._watches)
            guard = self._watches.enter_context(Guard("the training process", run.path))
            self._hang_watch = self._watches.enter_context(HangWatch(config.hang_seconds, guard))
            with self._failures.in_one_line():
                site = self._watches.enter_context(config.launcher.open(updater_seed(config.seed, resumptions)))
            self._hang_watch.watch_roles(site.progress)
            for notice in site.notices:
                display.message(notice)
            if not local_actors:
                display.message(how_to_start(config))
            run_id = state.run_id if state else f"{random_bits(64):016x}"
            self._separate = site.server or config.server.endpoint
            self._server = open_server(
                self._separate,
                run_id,
                address=site.address,
                token=site.token,
                reconnect_seconds=site.reconnect_seconds,
            )
            undo.callback(self._server.close)
            with self._hang_watch.watching(), self._failures.in_one_line():
                built = assemble(
                    config,
                    self._server,
                    run_id=run_id,
                    fresh=not checkpoint,
                    generation=resumptions * GENERATIONS_PER_START,
                )
            undo.callback(built.program.close)
            if built.device != "cpu":
                display.message(f"the learner computes on {built.device}")
            self._precision_note = built.note
            if built.note:
                display.message(built.note)
            start = f"{random_bits(64):016x}"
            self._session = open_session(
                config, run, display, built, self._server, self._separate, run_id=run_id, start=start, state=state
            )
            with self._failures.in_one_line():
                self._wire(start, launcher or site.make_launcher, local_actors, site.check_roles)
            self._watches.enter_context(self._interrupts)
            undo.pop_all()  # run() closes all of these

    def _wire(
        self, start: str, launcher: LauncherFactory, local_actors: bool, check_roles: Callable[[Sequence[str]], None]
    ) -> None:
        """Creates the supervisor, evaluator and reporting around the program."""
        session, config, program = self._session, self._config, self._session.program
        self._program, self._clock, self._monitor = program, session.clock, session.monitor
        self._learner, self._evaluations = session.learner, session.evaluations
        actors = program.actors if local_actors else []
        others = max(1, len(actors))  # at least the evaluator: a thread that shares its core delays all the others
        alone = program.deterministic or simulated_cores() is not None  # more threads add in another order
        self._watches.enter_context(torch_threads(1 if alone else max(1, available_cores() - others)))
        slots = [] if local_actors else program.actors
        notice = RunNotice(
            config.environment,
            config.hang_seconds,
            start,
            config.topology.acting_kind,
            slots=len(slots),
            policy=slots[0].relayed_policy if slots else None,
        )
        self._publisher = RunPublisher(session, notice, slots)
        roles = [*program.services, EvaluatorRole(0, generation=session.first_generation), *actors]
        check_roles([role.name for role in roles])
        launched = launcher(self._server.endpoint, self._run.logs_path)
        self._events = RoleEvents(session)
        self._supervisor = Supervisor(launched, roles, config.hang_seconds, self._events)
        self._schedule = EvaluationSchedule(
            session,
            holds=program.deterministic or available_cores() < len(roles) + 1,
            next_evaluation=self._checkpoint.state.next_evaluation if self._checkpoint else None,
        )
        self._checkpoints = CheckpointSchedule(
            session, self._schedule, self._callbacks, self._checkpoint, local_actors=local_actors
        )
        self._reports = Reports(session, self._schedule, self._supervisor)
        self._records = ProgressRecords(session, self._publisher)
        self._ticks = TickSchedule(session, self._supervisor, self._reports, self._records, self._interrupts)

    def run(self) -> dict[str, Any]:
        """Trains until a stopping rule applies and returns the summary; nothing of the run is left running."""
        interrupts = self._interrupts
        try:
            with self._failures.in_one_line():
                if self._checkpoint:
                    begin = monotonic()
                    with self._watching():
                        restore(self._session, self._checkpoint)
                    self._ticks.follow()
                    self._clock.skip(monotonic() - begin)
                return self._finish(self._train_or_save(interrupts), interrupts)
        except (ReplayError, ServerError) as error:
            if self._separate is None:
                raise
            server, reason = blamed_server(error, self._separate.address)
            if interrupts.gave_up:
                reason = "it did not answer when the run was asked to stop"
            raise LaunchError(
                f"the run can't continue with the server at {shown(server)}: {reason}{self._failures.continuation}"
            ) from error
        except StorageError as error:
            raise self._follow_directory() or error from None
        except KeyboardInterrupt:
            self._server.close()  # stops all waiting for the server
            raise
        finally:
            interrupts.acknowledge()
            with self._watches:
                self._end()

    def _end(self) -> None:
        """Ends everything that belongs to the run."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._evaluations.close)
            ends.callback(self._server.close)
            ends.callback(self._failures.tell, self._close_program)
            ends.callback(self._failures.tell, self._supervisor.stop)
            with contextlib.suppress(ServerError):  # the server may be the reason for the end
                self._publisher.end()

    def _close_program(self) -> None:
        with self._watching():
            self._program.close()

    def _watching(self) -> contextlib.AbstractContextManager[None]:
        """A context for calls of environments in this process, if the program acts in it."""
        acting = self._program.acting
        return contextlib.nullcontext() if acting is None else self._hang_watch.watching(acting)

    def _follow_directory(self) -> StorageError | None:
        """Returns the error to raise if the run directory was renamed (after saving there) or removed; else None."""
        displaced = self._run.displacement()
        if displaced is not None and self._run.follow():
            self._checkpoints.save()
        return displaced

    def _train_or_save(self, interrupts: Interrupts) -> str:
        """Trains; saves what was learned for any reason to stop except divergence."""
        try:
            if self._session.topology.quantizes:
                self._session.record(
                    "precision",
                    learner_steps=self._learner.steps,
                    precision=self._session.topology.actor_precision,
                    communication_bits=self._session.topology.policy_bits,
                    note=self._precision_note,
                )
            ended_by = ("score" if self._evaluations.solved_at else self._limit()) if self._checkpoint else None
            if ended_by:  # only an evaluation or the summary is missing
                self._supervisor.stop(but=EvaluatorRole.kind)
            else:
                self._publisher.publish()
            self._supervisor.start()
            with self._watching():
                return self._train(interrupts, ended_by)
        except DivergenceError:
            raise
        except StorageError:  # of this disk, or of a server that refuses
            if self._learner.steps and self._run.displacement() is None:
                with contextlib.suppress(StorageError, ServerError):
                    self._checkpoints.save()
            raise
        except Exception as error:
            if isinstance(error, ClosedError):
                self._ticks.skip_gap(server_lost=True)
                self._server.close()  # it was waited for long enough
            if self._learner.steps:
                with contextlib.suppress(ServerError):  # workers' shared state may have been lost with the server
                    self._checkpoints.save()
            raise

    def _train(self, interrupts: Interrupts, ended_by: str | None) -> str:
        """The main loop; returns the rule that ended it, or had ended an earlier start but for its summary."""
        if self._checkpoint:
            awaited = self._checkpoint.state.awaited_episodes
            if ended_by and not awaited:
                return ended_by
            self._schedule.resume(awaited, hold=ended_by is not None)
        while True:
            try:
                stopped_by = self._turn(interrupts)
                if stopped_by:
                    return stopped_by
            except ClosedError:
                raise
            except ServerError:
                if not self._collect():  # restores what a restarted server has lost
                    raise

    def _turn(self, interrupts: Interrupts) -> str | None:
        """One update if there is a batch, and other work that is due; returns the rule that ends training, if any."""
        if self._clock.paused:
            sleep(_EVALUATION_POLL_SECONDS)
        else:
            self._program.step(min(_STEP_TIMEOUT_SECONDS, max(_SHORTEST_STEP_SECONDS, self._schedule.seconds_left)))
        if interrupts.requested:
            return "interrupt"
        evaluates = self._program.deterministic or self._schedule.seconds_left <= 0
        if evaluates or self._clock.paused or self._ticks.due:
            self._collect()
            self._schedule.resume_training()
            stopped_by = self._stopped_by()
            if stopped_by:
                return stopped_by
            self._schedule.evaluate_when_due()
        self._tick()
        return None

    def _tick(self) -> None:
        """Work that is due by wall clock: supervision, display, records, checkpoint."""
        if not self._ticks.due:
            return
        self._ticks.skip_gap()
        self._run.require_place()  # also while an evaluation pauses training and nothing is recorded
        self._ticks.follow(self._reports.period_seconds)
        self._records.look(paused=self._clock.paused)
        self._supervisor.check()
        self._records.write_when_due()
        self._checkpoints.save_when_due()

    def _collect(self) -> bool:
        """Processes all reports that have arrived; returns whether the server was restarted."""
        self._reports.collect(self._ticks.skip_gap)  # before a report pauses the clock
        if not self._publisher.renew(paused=self._clock.paused):
            return False
        self._session.record_event("server-restart")
        self._supervisor.forget_deaths()  # an actor ends that finds no table yet
        if not self._publisher.ended:
            size = int(self._program.table.stats()["size"])
            self._display.message(
                f"the server was restarted, with {size:,} transitions of the run; everything else it needs is "
                "published again"
            )
        return True

    def _stopped_by(self) -> str | None:
        if self._evaluations.solved_at:
            return "score"
        if self._clock.paused:
            return None
        return "callback" if self._callbacks.stopped else self._limit()

    def _limit(self) -> str | None:
        """The limit that the run has reached, if any."""
        config = self._config
        if config.steps is not None and self._monitor.environment_steps >= config.steps:
            return "steps"
        if config.time_limit_seconds is not None and self._clock.seconds >= config.time_limit_seconds:
            return "time"
        return None

    def _finish(self, stopped_by: str, interrupts: Interrupts) -> dict[str, Any]:
        """Ends the actors, saves, evaluates the final policy, and writes the summary."""
        if self._clock.paused:  # by an evaluation, for which the actors wait until they end
            self._session.skip(self._clock.paused_seconds)
        else:
            self._clock.pause()
        self._monitor.keep_count_of_actors()
        try:
            self._publisher.end()
            self._supervisor.stop(but=EvaluatorRole.kind)
            self._collect()
            self._reports.finish()
            self._records.finish()
        finally:
            self._checkpoints.save()
        episodes = self._config.final_evaluation_episodes if self._learner.steps else 0
        if stopped_by not in ("score", "interrupt") and episodes and not self._evaluate_finally(episodes, interrupts):
            stopped_by = "interrupt"
        if stopped_by in ("steps", "time") and not self._learner.steps:
            self._display.message(
                f"no update was made, and the policy is the initial one: the run ended before {self._missing()}"
            )
        interrupts.acknowledge()
        self._records.write()
        summary = summarize(
            self._session,
            self._records.stats,
            exits=self._events.exits,
            places=self._events.places,
            busy_cores=self._records.busy_cores(),
            stopped_by=stopped_by,
        )
        self._run.write_summary(summary)
        return summary

    def _missing(self) -> str:
        """What the first update of a run that made none would have needed."""
        config, topology = self._config, self._config.topology
        replay = config.algorithm.replay
        if replay is not None:
            tables = topology.acting_processes if topology.has_workers and not topology.shares_replay(replay) else 1
            needed = tables * transitions_to_start(replay, tables)
            if self._records.stats["size"] < needed:
                return f"{needed:,} transitions were stored (learning_starts, and a batch for each table)"
        return "the first one"

    def _evaluate_finally(self, episodes: int, interrupts: Interrupts) -> bool:
        """Evaluates the final policy and saves the result; returns False after an interrupt."""
        if interrupts.requested:
            return False
        self._schedule.evaluate(episodes, hold=True)
        while self._evaluations.pending:
            if interrupts.requested:
                return False
            sleep(_EVALUATION_POLL_SECONDS)
            self._collect()
            self._tick()
        self._checkpoints.save_final_evaluation()
        return True

    def _give_up(self) -> None:
        """Called if the run does not stop long after a request: it waits for an environment, or for a lost server."""
        self._hang_watch.hurry()
        if self._separate is not None:
            self._server.close()
            sleep(_SAVE_SECONDS)
            self._program.give_up()
