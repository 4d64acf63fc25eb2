"""Restores a run from a checkpoint."""

from headrace.environments import repeats_episodes, require_spec
from headrace.servers import shown
from headrace.training.checkpoint import Checkpoint, change_state
from headrace.training.session import Session

__all__ = ["restore", "restore_experience"]


def restore(session: Session, checkpoint: Checkpoint) -> None:
    """Restores parameters, counts, the program and, unless a separate server has kept it, experience.

    Tells the user where the experience comes from and what is lost. From now on the run has the session's stopping
    rules, and its checkpoint this start's number: if the start is killed before it saves, the next one has another.
    Raises EnvironmentFault if the environment is another one than the policy's, CheckpointError or ReplayError for a
    broken file, StorageError if the checkpoint can't be written.
    """
    state, program = checkpoint.state, session.program
    require_spec(session.config.environment, session.spec, state.spec)
    session.updater.load(checkpoint.learner())
    restore_experience(session, checkpoint)
    if program.deterministic and not repeats_episodes(session.config.environment):
        session.display.message(
            f"{session.config.environment} can't repeat its open episodes: each environment begins a new one, and its "
            "last transitions, up to one chunk, are lost"
        )
    program.restore(state.program)
    session.learner.resume(state.learner_steps, state.mean_staleness)
    session.learner.clock.seconds = dict(state.learner_seconds)
    session.monitor.restore(state.actor_seconds, state.learner_seconds)
    session.evaluations.restore(state.evaluations, solved=state.solved)
    change_state(session.run.checkpoints_path, resumptions=session.resumptions, solved=state.solved)
    session.record_event("resume", seconds=state.seconds, resumptions=session.resumptions)
    rules = (session.config.steps, session.config.time_limit_seconds, session.config.until_score)
    session.run.go_on(session.run.read_config().with_rules(*rules).to_json(), state.environment_steps)
    session.learner.clock.restart("other")  # restoring is no learning


def restore_experience(session: Session, checkpoint: Checkpoint) -> None:
    """Fills the table, unless it is on a separate server that has kept it, or workers gather new experience."""
    program, separate = session.program, session.separate_server
    size = int(program.table.stats()["size"])
    if separate is not None and session.server.keeps_experience and (size or not session.config.topology.has_workers):
        session.display.message(
            f"continues with the {size:,} transitions that run {separate.run} has on {shown(separate.address)}"
        )
        return
    if program.saves_experience:
        checkpoint.restore_replay(program.table)
    elif not program.deterministic:
        session.display.message("resumes with the learned parameters; the workers gather new experience")
