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

    A run that was stopped after its last step only makes its final evaluation. Raises StorageError before training if
    no further checkpoint could be written.
    """
    config = RunConfig.from_json(run.read_config()).with_rules(steps, time_limit_seconds, until_score)
    checkpoint = newest_checkpoint(run.checkpoints_path)
    given = not (steps is time_limit_seconds is until_score is None)
    if checkpoint.state.solved and not given:
        target, reached = config.until_score, checkpoint.state.target
        if target is not None and reached is not None and target <= reached:
            raise CheckpointError(f"the run has reached its score, {target:g}; give another with --until-score")
    if given or _has_ended(run):
        _require_more(config, checkpoint.state.moment)
    require_writable(run.checkpoints_path)
    config = dataclasses.replace(config, topology=checkpoint.topology(config))
    local_actors = checkpoint.state.local_actors
    trainer = Trainer(config, run, display, checkpoint=checkpoint, local_actors=local_actors, callbacks=callbacks)
    return Result(run, trainer.run())


def _has_ended(run: RunDirectory) -> bool:
    """Whether nothing stopped the run early: it has evaluated its last policy."""
    summary = run.read_summary()
    return summary is not None and summary.get("stopped_by") != "interrupt"


def _require_more(config: RunConfig, moment: Moment) -> None:
    """Raises CheckpointError if a stopping rule applies already."""
    done, seconds = moment.environment_steps, moment.seconds
    if config.steps is not None and done >= config.steps:
        raise CheckpointError(f"the run has done {done:,} of its {config.steps:,} steps; give more with --steps")
    if config.time_limit_seconds is not None and seconds >= config.time_limit_seconds:
        raise CheckpointError(
            f"the run has trained {seconds:.0f} of its {config.time_limit_seconds:.0f} s; give more with --time-limit"
        )
