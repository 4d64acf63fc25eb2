"""Decides when a run is saved, and what a checkpoint contains."""

from pathlib import Path

from headrace.clock import monotonic
from headrace.training.callbacks import Callbacks
from headrace.training.checkpoint import Checkpoint, change_state, checkpoint_pause, save_checkpoint
from headrace.training.evaluation_schedule import EvaluationSchedule
from headrace.training.run_state import RunState
from headrace.training.session import Session

__all__ = ["CheckpointSchedule"]


class CheckpointSchedule:
    """Saves the run when that is due, on request, or in part. One thread."""

    def __init__(
        self,
        session: Session,
        evaluation_schedule: EvaluationSchedule,
        callbacks: Callbacks,
        resumed_from: Checkpoint | None,
        *,
        local_actors: bool,
    ) -> None:
        self._session = session
        self._evaluation_schedule = evaluation_schedule
        self._callbacks = callbacks
        self._local_actors = local_actors
        self.next_seconds = 0.0
        """When the next checkpoint is due, in training seconds."""
        if resumed_from:
            trained = resumed_from.state.seconds
            self.next_seconds = trained + self._pause(trained, 0.0)

    def save_when_due(self) -> None:
        """Saves if it is time to and no evaluation holds training, so that its result is recorded once."""
        session = self._session
        if session.learner.steps and session.clock.seconds >= self.next_seconds and not session.clock.paused:
            begin = monotonic()
            self.save()
            self.next_seconds = session.clock.seconds + self._pause(session.clock.seconds, monotonic() - begin)

    def save(self) -> None:
        """Writes a checkpoint, with the experience that only this process stores. See `save_checkpoint()`."""
        session = self._session
        table = session.program.table if session.program.saves_experience else None
        session.run.require_place()
        learner, policy = session.updater.state(), session.policy()  # which may find that a server has lost updates
        state = self._state()
        self._announce(save_checkpoint(session.run.checkpoints_path, learner, policy, table, state), state)

    def save_final_evaluation(self) -> None:
        """Adds to the last checkpoint what came after it: the final evaluation, and reports of separate actors."""
        session, state = self._session, self._state()
        # not the number of updates, which is that of the checkpoint's parameters
        changed = ("environment_steps", "episodes", "actor_seconds", "totals", "evaluations", "total_seconds")
        changes = {name: getattr(state, name) for name in changed}
        written = change_state(session.run.checkpoints_path, **changes, awaited_episodes=0)
        self._announce(written.path, written.state)

    def _announce(self, path: Path, state: RunState) -> None:
        self._callbacks.checkpoint({"path": str(path), **state.moment._asdict()})

    def _pause(self, trained_seconds: float, saving_seconds: float) -> float:
        pause = checkpoint_pause(trained_seconds, saving_seconds)
        return min(pause, self._session.config.checkpoint_period_seconds)

    def _state(self) -> RunState:
        session = self._session
        return RunState(
            **session.moment._asdict(),
            total_seconds=session.clock.total_seconds,
            episodes=session.monitor.episodes,
            run_id=session.run_id,
            resumptions=session.resumptions,
            spec=session.spec,
            acting_processes=session.config.topology.actor_count(session.config.algorithm),
            local_actors=self._local_actors,
            actor_seconds=session.monitor.actor_seconds,
            learner_seconds=session.learner.clock.seconds,
            totals=session.totals.state(),
            evaluations=session.evaluations.state(),
            next_evaluation=self._evaluation_schedule.next_evaluation,
            awaited_episodes=session.evaluations.awaited_episodes,
            solved=session.evaluations.solved_at is not None,
            target=session.config.until_score,
            program=session.program.state(),
            mean_staleness=session.learner.mean_staleness,
        )
