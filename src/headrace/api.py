"""Training, tuning and trained policies from Python."""

import difflib
import functools
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from headrace.algorithms.config import Algorithm, Engine
from headrace.algorithms.registry import ALGORITHMS
from headrace.environments.names import newest
from headrace.errors import ConfigError, require
from headrace.fields import require_fit
from headrace.imports import require_not_imported
from headrace.launch.config import LauncherConfig
from headrace.report.display import Display, Heading, open_display
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig, ServerConfig, preset
from headrace.signals import interruptible
from headrace.topologies.config import Topology
from headrace.training import Callback, Callbacks, Result, SavedPolicy, load_kept, load_policy
from headrace.training import resume as resume_run
from headrace.training import train as train_run
from headrace.zoo import find_kept, zoo_name

if TYPE_CHECKING:
    from headrace.tuning.run import TuneResult

__all__ = ["Settings", "load", "resume", "train", "tune"]


class Settings(TypedDict, total=False):
    """Settings of a run: those of `RunConfig` and `ServerConfig`, whose defaults apply unless there is a preset's.

    The preset of the environment has the algorithm, the topology (the algorithm's default, such as Ape-X) and, without
    a stopping rule, the number of steps. `frugal` chooses the preset that needs few environment steps.
    """

    algorithm: Algorithm | None
    topology: Topology | None
    steps: int | None
    time_limit_seconds: float | None
    until_score: float | None
    seed: int
    frugal: bool
    evaluation_period_seconds: float | None
    evaluation_period_steps: int
    evaluation_episodes: int | None
    final_evaluation_episodes: int | None
    checkpoint_period_seconds: float | None
    hang_seconds: float
    device: str
    learner_engine: Engine
    server: str | None
    run: str
    token_file: str | Path | None
    launcher: LauncherConfig | None


@interruptible()
def train(
    environment: str,
    *,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    on_record: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Trains a policy and returns the result; blocks until a stopping rule applies.

    SIGINT, SIGTERM and SIGHUP end the run, not the program: it is saved, and the result's summary has "interrupt" as
    `stopped_by`, which a program that makes several runs must look at. Before the run has begun they raise
    KeyboardInterrupt. See `Settings`, and `Callbacks` for what is called during training. Raises HeadraceError.
    """
    require_not_imported("headrace.train()")
    config = _configure(environment, settings)
    callbacks = Callbacks(on_record, on_evaluation, on_checkpoint)
    directory = RunDirectory.create_for(config, None if run_dir is None else _path("run_dir", run_dir))
    with directory, directory.discarded_unless_used(), _display(config, directory, quiet) as display:
        return train_run(config, directory, display, callbacks=callbacks)


@interruptible()
def resume(
    run_dir: str | Path,
    *,
    steps: int | None = None,
    time_limit_seconds: float | None = None,
    until_score: float | None = None,
    quiet: bool = False,
    on_record: Callback | None = None,
    on_evaluation: Callback | None = None,
    on_checkpoint: Callback | None = None,
) -> Result:
    """Continues a run from its checkpoint, with the stopping rules that it had unless others are given.

    Steps and time include those already done. See `Callbacks`. Raises HeadraceError.
    """
    require_not_imported("headrace.resume()")
    callbacks = Callbacks(on_record, on_evaluation, on_checkpoint)
    with RunDirectory.open(_path("run_dir", run_dir), writing=True) as directory:
        config = directory.read_config()
        with _display(config, directory, quiet) as display:
            return resume_run(
                directory,
                display,
                steps=steps,
                time_limit_seconds=time_limit_seconds,
                until_score=until_score,
                callbacks=callbacks,
            )


def load(path: str | Path) -> SavedPolicy:
    """The trained policy of a run directory, of an .onnx file that `headrace export` wrote, or of the zoo.

        policy = headrace.load("runs/LunarLander-v3-dqn-20260102-030405")
        policy = headrace.load("zoo:CartPole-v1")
        action = policy.act(observation)

    See `SavedPolicy`. Torch is not needed; a file and the zoo need no run, and the environment only for a
    policy of the zoo whose observations have parts or action masks. Raises HeadraceError.
    """
    place = _path("path", path)
    name = zoo_name(path)
    return load_policy(place) if name is None else load_kept(find_kept(name))


def tune(
    environment: str,
    *,
    tune: Mapping[str, str],
    trials: int = 20,
    parallel: int = 1,
    study_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Unpack[Settings],
) -> "TuneResult":
    """Finds good settings by a study whose trials are training runs; blocks until it has this many trials.

    `tune` maps settings, by the names of their flags, to their values: log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH or
    choice:A,B,... `settings` are those of train() that all trials share. A study that exists in `study_dir` is
    continued. Raises HeadraceError; KeyboardInterrupt ends the study, which is kept.
    """
    from headrace.tuning.run import tune as tune_run  # an optional dependency, imported only if used

    require_not_imported("headrace.tune()")
    config = _configure(environment, settings)
    path = None if study_dir is None else _path("study_dir", study_dir)
    tuned = tune_run(config, tune, trials=trials, parallel=parallel, path=path, quiet=quiet)
    if tuned.interrupted:
        raise KeyboardInterrupt
    found = [trial._replace(path=trial.path.absolute()) for trial in tuned.trials]
    return tuned._replace(path=tuned.path.absolute(), trials=found)


def _display(config: RunConfig, directory: RunDirectory, quiet: bool) -> Display:
    return open_display(Heading.of(config, directory.shown), quiet=quiet)


def _path(name: str, value: object) -> Path:
    if isinstance(value, str | os.PathLike) and value != "":
        return Path(value)
    raise ConfigError(f"{name} is {value!r:.60}; it must be a path")


def _require_importable(environment: str) -> None:
    """Raises ConfigError for an environment that the run's other processes, and later commands, lack.

    Its entry point is in the running script, or in a package that only this process has imported.
    """
    import gymnasium

    from headrace.environments.suites import find_suite
    from headrace.environments.vector_suites import VectorEntryPoints

    name = environment.removeprefix(VectorEntryPoints.prefix)
    vectorized = name != environment
    found = newest(name, gymnasium.registry)
    spec = None if found is None else gymnasium.registry[found]
    entries: list[Any] = [environment] if spec is None else [spec.entry_point]
    if spec is not None and vectorized:
        entries.append(spec.vector_entry_point)
    of_registry = spec is not None and (vectorized or find_suite(environment) is None)
    required = '"module:factory" or "module:ID" is required, of a module that creates or registers it'
    for module in map(_module_of, entries):
        _require_outside_script("environment", environment, module, required)
        if of_registry and module and module.partition(".")[0] not in _packages_with_environments():
            raise ConfigError(
                f"environment is {environment}, which is registered in this process alone: "
                f'"{module}:{environment}" is required, or with another module that registers it'
            )


def _module_of(entry: Any) -> str:
    """The module of an entry point, a text or a function; empty if there is none."""
    while isinstance(entry, functools.partial):
        entry = entry.func
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def _packages_with_environments() -> set[str]:
    """The packages whose environments are known wherever Gymnasium is imported: its own, ours, and its plugins."""
    plugins = entry_points(group="gymnasium.envs")
    return {"gymnasium", "headrace", *(entry.module.partition(".")[0] for entry in plugins)}


def _require_outside_script(field: str, value: str, module: str, required: str) -> None:
    if module == "__main__":
        raise ConfigError(
            f"{field} is {value}, which is in the script itself, where no other process finds it: {required}"
        )


def _hint(environment: str, settings: Settings, name: str) -> str:
    """Where a setting belongs that train() does not have, or what it may have been meant to be."""
    known = preset(environment)
    algorithm = settings.get("algorithm") or known.algorithm
    topology = settings.get("topology") or known.topology(known.topology_name)
    for owner, part in (("algorithm", algorithm), ("topology", topology)):
        if name in getattr(part, "__dataclass_fields__", ()):
            return f": it is one of its {owner}, {owner}={type(part).__name__}({name}=...)"
    close = difflib.get_close_matches(name, Settings.__annotations__, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _configure(environment: str, settings: Settings) -> RunConfig:
    """The configuration of a run, with defaults from the preset."""
    named = 'a name such as "CartPole-v1", or "package.module:factory" for an own environment'
    require("environment", f"{environment!r:.60}", isinstance(environment, str), named)
    _require_importable(environment)
    for name in settings.keys() - Settings.__annotations__.keys():
        raise ConfigError(f"{name} is not a setting of a run{_hint(environment, settings, name)}")
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    frugal = given.pop("frugal", False)
    require_fit("frugal", frugal, bool)
    if frugal and "algorithm" in given:
        raise ConfigError("frugal is true, which chooses the algorithm, and algorithm is given: leave one of them out")
    known = preset(environment, frugal=frugal)
    if "algorithm" in given:
        ALGORITHMS.require_importable(given["algorithm"])
        known = preset(environment, ALGORITHMS.name_of(given["algorithm"]))._replace(algorithm=given["algorithm"])
        network = given["algorithm"].network
        required = '"module:function" is required, of a module that defines it'
        _require_outside_script("network", network, network.partition(":")[0], required)
    if not given.keys() & {"steps", "time_limit_seconds", "until_score"}:
        given["steps"] = known.steps
    if "topology" not in given:
        given["topology"] = known.topology(known.topology_name)
    token_file = given.pop("token_file", None)
    server = ServerConfig(
        given.pop("server", None),
        given.pop("run", "default"),
        None if token_file is None else _path("token_file", token_file),
    )
    defaults = {"algorithm": known.algorithm, **known.periods()}
    config = RunConfig(environment, server=server, **(defaults | given))
    periods = [name for name in ("evaluation_period_seconds", "evaluation_period_steps") if given.get(name)]
    if len(periods) == 1:  # both serve programs that train in several topologies
        config.require_effect(*periods)
    return config
