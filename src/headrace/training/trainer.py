"""Runs a program of roles: the main loop, its stopping rules, evaluations, checkpoints and records."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from headrace._native import Server
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.environments import describe
from headrace.errors import HeadraceError
from headrace.launch import Exit, Launcher, ProcessLauncher
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.roles.base import REPORTS, Role
from headrace.settings import RunConfig
from headrace.topologies.base import Workshop
from headrace.topologies.build import build_program
from headrace.training.checkpoint import Checkpoint, save_checkpoint
from headrace.training.clock import TrainingClock
from headrace.training.evaluation import Evaluation, Evaluations, Moment
from headrace.training.hang_watch import HangWatch
from headrace.training.hardware import available_cores, choose_device
from headrace.training.interrupts import Interrupts
from headrace.training.monitor import Monitor
from headrace.training.summary import summarize
from headrace.training.supervision import Supervisor

__all__ = ["Trainer"]

_TICK_SECONDS = 0.25
_RECORD_SECONDS = 1.0
_HINT_SECONDS = 3.0
_STEP_TIMEOUT_SECONDS = 0.05
_EVALUATION_POLL_SECONDS = 0.005
_GENERATIONS_PER_START = 1 << 16

LauncherFactory = Callable[[str, Path], Launcher]


class Trainer:
    """One start of a run, from scratch or from a checkpoint. One thread.

    `launcher` makes what runs the roles, from the server's address and the folder for logs.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDirectory,
        display: Display,
        *,
        checkpoint: Checkpoint | None = None,
        launcher: LauncherFactory = ProcessLauncher,
    ) -> None:
        self._config = config
        self._run = run
        self._display = display
        self._state: dict[str, Any] = checkpoint.state if checkpoint else {}
        spec = describe(config.environment)
        device = choose_device(config.device)
        self._updater = DQNUpdater(config.algorithm, spec, device, config.seed)
        self._server = Server()
        self._generation = self._state.get("generation", -1) + 1
        workshop = Workshop(config.environment, spec, config.seed, config.algorithm, self._updater, self._server)
        self._program = build_program(
            config.topology,
            workshop,
            generation=self._generation * _GENERATIONS_PER_START,
            pinned=device.type == "cuda",
        )
        self._learner = self._program.learner
        actors = [role for role in self._program.roles if role.kind == "actor"]
        self._holds = self._program.deterministic or available_cores() < len(actors) + 2
        torch.set_num_threads(1 if self._program.deterministic else max(1, available_cores() - len(actors)))
        self._monitor = Monitor(config, max(1, len(actors)), *self._counts())
        self._evaluations = Evaluations(self._server, config.environment, config.seed, config.until_score)
        if checkpoint:
            self._restore(checkpoint)
        self._clock = TrainingClock(self._state.get("seconds", 0.0))
        address = self._server.listen("unix:@")
        self._launcher = launcher(address, run.logs_path)
        roles = [*self._program.roles, Role("evaluator", 0, "{}")]
        self._supervisor = Supervisor(self._launcher, roles, config.hang_seconds, self._on_exit)
        self._next_evaluation = self._state.get("next_evaluation", self._evaluation_period())
        self._last_hint = 0.0
        self._next_tick = 0.0
        self._next_record = time.perf_counter() + _RECORD_SECONDS
        self._next_checkpoint = self._clock.seconds + config.checkpoint_period_seconds
        self._started = time.perf_counter()

    def run(self) -> dict[str, Any]:
        """Trains until a stopping rule holds, and returns the summary; afterwards nothing of the run is running."""
        try:
            with Interrupts() as interrupts, HangWatch(self._program.acting, self._config.hang_seconds):
                self._learner.publish()
                self._supervisor.start()
                try:
                    stopped_by = self._train(interrupts)
                except HeadraceError:
                    if self._learner.steps:
                        self._save()
                    raise
                return self._finish(stopped_by, interrupts)
        finally:
            self._program.table.close()
            self._launcher.stop()
            self._program.close()
            self._server.close()

    def _train(self, interrupts: Interrupts) -> str:
        """The main loop; returns which rule ended it."""
        while True:
            if self._clock.paused:
                time.sleep(_EVALUATION_POLL_SECONDS)
            else:
                self._program.step(_STEP_TIMEOUT_SECONDS)
            if interrupts.requested:
                return "interrupt"
            if self._clock.paused or self._program.deterministic or time.perf_counter() >= self._next_tick:
                self._collect()
                stopped_by = self._stopped_by()
                if stopped_by:
                    return stopped_by
                self._evaluate_when_due()
            self._tick()

    def _tick(self) -> None:
        """What is due by wall clock: supervision, display, records, checkpoint."""
        now = time.perf_counter()
        if now < self._next_tick:
            return
        self._next_tick = now + _TICK_SECONDS
        self._supervisor.check()
        if now >= self._next_record or self._clock.paused:
            self._next_record = now + _RECORD_SECONDS
            self._record()
        if self._clock.seconds >= self._next_checkpoint:
            self._next_checkpoint = self._clock.seconds + self._config.checkpoint_period_seconds
            self._save()

    def _record(self) -> None:
        progress = self._monitor.snapshot(self._clock.seconds, self._learner, self._program.table, self._evaluations)
        self._display.update(progress)
        if not self._clock.paused:
            self._run.append(progress.to_record())

    def _collect(self) -> None:
        """Takes in every report that has arrived."""
        for report in self._program.take_reports():
            self._monitor.add(report)
        for message in self._server.drain(REPORTS):
            report = json.loads(message)
            self._supervisor.hear(report)
            if report["role"] == "actor":
                self._monitor.add(report)
            elif "request" in report:
                evaluation = self._evaluations.answer(report)
                if evaluation:
                    self._on_evaluation(evaluation)

    def _stopped_by(self) -> str | None:
        config = self._config
        if self._evaluations.solved_at:
            return "score"
        if self._clock.paused:
            return None
        if config.steps is not None and self._monitor.environment_steps >= config.steps:
            return "steps"
        if config.time_limit_seconds is not None and self._clock.seconds >= config.time_limit_seconds:
            return "time"
        return None

    def _evaluation_period(self) -> float:
        config = self._config
        return config.evaluation_period_steps if self._program.deterministic else config.evaluation_period_seconds

    def _evaluate_when_due(self) -> None:
        if self._evaluations.pending or not self._learner.steps:
            return
        position = self._monitor.environment_steps if self._program.deterministic else self._clock.seconds
        if position >= self._next_evaluation or self._hinted():
            self._next_evaluation = position + self._evaluation_period()
            self._evaluate(self._config.evaluation_episodes, hold=self._holds)

    def _hinted(self) -> bool:
        """Whether the environments that hardly explore already reach the target score."""
        target, seen = self._config.until_score, self._monitor.near_greedy_return
        if self._program.deterministic or target is None or seen is None or seen < target:
            return False
        if self._clock.seconds < self._last_hint + _HINT_SECONDS:
            return False
        self._last_hint = self._clock.seconds
        self._monitor.clear_near_greedy()
        return True

    def _evaluate(self, episodes: int, *, hold: bool) -> None:
        if hold:
            self._clock.pause()
            self._program.table.set_paused(True)
        now = Moment(self._monitor.environment_steps, self._learner.steps, self._clock.seconds)
        self._evaluations.request(self._updater.policy(), now, episodes)

    def _on_evaluation(self, evaluation: Evaluation) -> None:
        self._run.append(evaluation.record())
        self._display.message(
            f"evaluation at {evaluation.moment.environment_steps:,} steps, {evaluation.moment.seconds:.0f} s: "
            f"{evaluation.mean:.1f} ± {evaluation.std:.1f} over {len(evaluation.returns)} greedy episodes"
        )
        if self._clock.paused and not self._evaluations.pending:
            self._program.table.set_paused(False)
            self._clock.resume()

    def _on_exit(self, ended: Exit, again: bool) -> None:
        role = ended.role
        if role.kind == "actor":
            self._monitor.forget(role.index)
        else:
            self._evaluations.repeat()
        self._display.message(
            f"{role.name} died ({ended.reason}): {ended.message}" + ("; it is started again" if again else "")
        )
        self._run.append(
            {
                "kind": "exit",
                "role": role.name,
                "reason": f"{ended.reason}: {ended.message}",
                "seconds": self._clock.seconds,
            }
        )

    def _finish(self, stopped_by: str, interrupts: Interrupts) -> dict[str, Any]:
        """Final evaluation, checkpoint and summary."""
        if stopped_by not in ("score", "interrupt") and self._config.final_evaluation_episodes:
            self._evaluate(self._config.final_evaluation_episodes, hold=True)
            while self._evaluations.pending and not interrupts.requested:
                time.sleep(_EVALUATION_POLL_SECONDS)
                self._collect()
                self._tick()
        if not self._clock.paused:
            self._clock.pause()
        self._program.table.set_paused(True)
        self._launcher.stop()
        self._collect()
        self._record()
        if self._learner.steps:
            self._save()
        summary = summarize(
            self._config,
            self._monitor,
            self._learner,
            self._program.table,
            self._evaluations,
            wall_seconds=self._clock.seconds,
            total_seconds=self._state.get("total_seconds", 0.0) + time.perf_counter() - self._started,
            stopped_by=stopped_by,
        )
        self._run.write_summary(summary)
        return summary

    def _save(self) -> None:
        state = {
            "environment_steps": self._monitor.environment_steps,
            "episodes": self._monitor.episodes,
            "learner_steps": self._learner.steps,
            "seconds": self._clock.seconds,
            "total_seconds": self._state.get("total_seconds", 0.0) + time.perf_counter() - self._started,
            "generation": self._generation,
            "next_evaluation": self._next_evaluation,
            "torch_random": torch.get_rng_state().tolist(),
            "program": self._program.state(),
        }
        save_checkpoint(
            self._run.checkpoints_path, self._updater.state(), self._updater.policy(), self._program.table, state
        )

    def _counts(self) -> tuple[int, int]:
        return self._state.get("environment_steps", 0), self._state.get("episodes", 0)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._updater.load(checkpoint.tensors())
        checkpoint.restore_replay(self._program.table)
        torch.set_rng_state(torch.tensor(self._state["torch_random"], dtype=torch.uint8))
        self._program.restore(self._state["program"])
        self._learner.steps = self._state["learner_steps"]
        self._run.append({"kind": "resume", "seconds": self._state["seconds"], "generation": self._generation})
