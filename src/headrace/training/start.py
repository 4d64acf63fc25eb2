"""Starts and resumes runs."""

import dataclasses

from headrace.errors import CheckpointError
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training.callbacks import Callbacks
from headrace.training.checkpoint import newest_checkpoint, require_writable
from headrace.training.evaluation import Moment
from headrace.training.result import Result
from headrace.training.trainer import Trainer

__all__ = ["resume", "train"]


def train(
    config: RunConfig,
    run: RunDirectory,
    display: Display,
    *,
    local_actors: bool = True,
    callbacks: Callbacks | None = None,
) -> Result:
    """Trains from scratch into a new run directory; without `local_actors`, actors and workers are separate."""
    return Result(run, Trainer(config, run, display, local_actors=local_actors, callbacks=callbacks).run())


def resume(
    run: RunDirectory,
    display: Display,
    *,
    steps: int | None = None,
    time_limit_seconds: float | None = None,
    until_score: float | None = None,
    callbacks: Callbacks | None = None,
) -> Result:
    """Resumes from the newest checkpoint. The run's stopping rules apply unless an argument replaces them for good.

    A run that has reached its score or limit, but was stopped before its summary was written, trains no more: it makes
    the final evaluation, except after a reached score, and the summary. Raises StorageError before training if no
    further checkpoint could be written.
    """
    config = run.read_config().with_rules(steps, time_limit_seconds, until_score)
    checkpoint = newest_checkpoint(run.checkpoints_path)
    state = checkpoint.state
    unchanged = steps is time_limit_seconds is until_score is None
    target, before = config.until_score, state.target
    solved = unchanged and state.solved and target is not None and before is not None and target <= before
    if solved:
        reached: str | None = f"the run has reached its score, {target:g}; give another with --until-score"
    else:
        reached = _limit_reached(config, state.moment)
    if reached and not (unchanged and _was_stopped(run)):
        raise CheckpointError(reached)
    require_writable(run.checkpoints_path)
    checkpoint = checkpoint._replace(state=dataclasses.replace(state, solved=solved))
    config = dataclasses.replace(config, topology=checkpoint.topology(config))
    local_actors = checkpoint.state.local_actors
    trainer = Trainer(config, run, display, checkpoint=checkpoint, local_actors=local_actors, callbacks=callbacks)
    return Result(run, trainer.run())


def _was_stopped(run: RunDirectory) -> bool:
    """Whether the run was killed or interrupted: its last policy may not be evaluated, or its summary is missing."""
    try:
        summary = run.read_summary()
    except CheckpointError:
        return True
    return summary is None or summary.get("stopped_by") == "interrupt"


def _limit_reached(config: RunConfig, moment: Moment) -> str | None:
    """What to say if the run has done all its steps, or used its time."""
    done, seconds = moment.environment_steps, moment.seconds
    if config.steps is not None and done >= config.steps:
        return f"the run has done {done:,} of its {config.steps:,} steps; give more with --steps"
    limit = config.time_limit_seconds
    if limit is not None and seconds >= limit:
        return f"the run has trained {seconds:.0f} of its {limit:.0f} s; give more with --time-limit"
    return None
