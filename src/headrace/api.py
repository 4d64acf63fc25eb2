"""Training, tuning and trained policies from Python."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.algorithms.config import Algorithm, Engine
from headrace.launch.config import LauncherConfig, Processes
from headrace.report.display import Heading, open_display
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig, ServerConfig, preset
from headrace.topologies.config import Topology
from headrace.training import Result, SavedPolicy, load_policy
from headrace.training import train as train_run

if TYPE_CHECKING:
    from headrace.tuning.run import Tuned

__all__ = ["load", "train", "tune"]

T = TypeVar("T")


def train(
    environment: str,
    *,
    algorithm: Algorithm | None = None,
    topology: Topology | None = None,
    steps: int | None = None,
    time_limit_seconds: float | None = None,
    until_score: float | None = None,
    seed: int = 0,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    evaluation_period_seconds: float | None = None,
    evaluation_period_steps: int = 10_000,
    evaluation_episodes: int | None = None,
    final_evaluation_episodes: int | None = None,
    checkpoint_period_seconds: float | None = None,
    hang_seconds: float = 60.0,
    device: str = "auto",
    learner_engine: Engine = "auto",
    server: str | None = None,
    run: str = "default",
    token_file: str | Path | None = None,
    launcher: LauncherConfig | None = None,
) -> Result:
    """Trains a policy and returns the result; blocks until a stopping rule applies.

    Defaults come from the environment's preset, with topology Ape-X (HogWild without replay). Without a stopping rule,
    the preset's number of steps is used. Settings are those of `RunConfig` and `ServerConfig`. Raises HeadraceError.
    """
    config = _configure(
        environment,
        algorithm=algorithm,
        topology=topology,
        steps=steps,
        time_limit_seconds=time_limit_seconds,
        until_score=until_score,
        seed=seed,
        evaluation_period_seconds=evaluation_period_seconds,
        evaluation_period_steps=evaluation_period_steps,
        evaluation_episodes=evaluation_episodes,
        final_evaluation_episodes=final_evaluation_episodes,
        checkpoint_period_seconds=checkpoint_period_seconds,
        hang_seconds=hang_seconds,
        device=device,
        learner_engine=learner_engine,
        server=server,
        run=run,
        token_file=token_file,
        launcher=launcher,
    )
    if run_dir:
        directory = RunDirectory.create(Path(run_dir), config.to_json())
    else:
        directory = RunDirectory.create_default(environment, config.algorithm.name, datetime.now(), config.to_json())
    heading = Heading(environment, config.algorithm.name, config.topology.name, str(directory.path))
    with directory, open_display(heading, quiet=quiet) as display:
        return train_run(config, directory, display)


def load(path: str | Path) -> SavedPolicy:
    """The trained policy of a run directory, or of an .onnx file that `headrace export` wrote; torch is not needed.

        policy = headrace.load("runs/LunarLander-v3-dqn-20260102-030405")
        action = policy.act(observation)

    See `SavedPolicy`. A file needs neither the run nor its environment. Raises HeadraceError.
    """
    return load_policy(Path(path))


def tune(
    environment: str,
    *,
    tune: Mapping[str, str],
    trials: int = 20,
    parallel: int = 1,
    study_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> "Tuned":
    """Finds good settings by a study whose trials are training runs; blocks until it has this many trials.

    `tune` maps settings, by the names of their flags, to their values: log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH or
    choice:A,B,... `settings` are those of train() that all trials share. A study that exists in `study_dir` is
    continued. Raises HeadraceError; KeyboardInterrupt ends the study, which is kept.
    """
    from headrace.tuning.run import tune as tune_run  # an optional dependency, imported only if used

    config = _configure(environment, **settings)
    path = Path(study_dir) if study_dir else None
    tuned = tune_run(config, tune, trials=trials, parallel=parallel, path=path, quiet=quiet)
    if tuned.interrupted:
        raise KeyboardInterrupt
    return tuned


def _configure(
    environment: str,
    *,
    algorithm: Algorithm | None = None,
    topology: Topology | None = None,
    steps: int | None = None,
    time_limit_seconds: float | None = None,
    until_score: float | None = None,
    seed: int = 0,
    evaluation_period_seconds: float | None = None,
    evaluation_period_steps: int = 10_000,
    evaluation_episodes: int | None = None,
    final_evaluation_episodes: int | None = None,
    checkpoint_period_seconds: float | None = None,
    hang_seconds: float = 60.0,
    device: str = "auto",
    learner_engine: Engine = "auto",
    server: str | None = None,
    run: str = "default",
    token_file: str | Path | None = None,
    launcher: LauncherConfig | None = None,
) -> RunConfig:
    """The configuration of a run, with defaults from the preset."""
    known = preset(environment)
    if algorithm is not None:
        known = known._replace(algorithm=algorithm)
    if steps is None and time_limit_seconds is None and until_score is None:
        steps = known.steps
    return RunConfig(
        environment=environment,
        algorithm=known.algorithm,
        topology=topology or known.topology(known.topology_name),
        steps=steps,
        time_limit_seconds=time_limit_seconds,
        until_score=until_score,
        seed=seed,
        evaluation_period_seconds=_given(evaluation_period_seconds, known.evaluation_period_seconds),
        evaluation_period_steps=evaluation_period_steps,
        evaluation_episodes=_given(evaluation_episodes, known.evaluation_episodes),
        final_evaluation_episodes=_given(final_evaluation_episodes, known.final_evaluation_episodes),
        checkpoint_period_seconds=_given(checkpoint_period_seconds, known.checkpoint_period_seconds),
        hang_seconds=hang_seconds,
        device=device,
        learner_engine=learner_engine,
        server=ServerConfig(server, run, Path(token_file) if token_file else None),
        launcher=launcher or Processes(),
    )


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
