"""`headrace train`: settings from the environment's preset and the command line, then a run."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headrace.algorithms.dqn.config import DQN
from headrace.cli.arguments import Environment, Switch, TimeLimit, find_environment, flag_types, parse, require_known
from headrace.cli.ending import conclude
from headrace.errors import ConfigError, HeadraceError, LaunchError
from headrace.report import Heading, RunDirectory, default_run_directory, open_display
from headrace.settings import TOPOLOGIES, RunConfig, ServerPlace, preset
from headrace.topologies.config import Apex, Serial

__all__ = ["TrainOptions", "read_options", "run", "start"]

_PROG = "headrace train"


@dataclass(frozen=True)
class TrainOptions(RunConfig):
    """Every setting of a run as a flag, and where the run goes."""

    environment: Environment
    """Gymnasium id, package.module:factory, or ALE/... for Atari."""
    algorithm: Annotated[DQN, tyro.conf.arg(name="")] = field(default_factory=DQN)
    steps: int | None = None
    """Environment steps of all actors after which the run stops; if no stop is set, the preset's."""
    time_limit_seconds: TimeLimit = None
    """Training time after which the run stops, evaluations excluded: 90, 90s, 10m or 2h."""
    place: Annotated[ServerPlace, tyro.conf.arg(name="")] = field(default_factory=ServerPlace)
    algorithm_name: Annotated[Literal["dqn"], tyro.conf.arg(name="algorithm")] = "dqn"
    """What learns."""
    topology_name: Annotated[Literal["apex", "serial"], tyro.conf.arg(name="topology")] = "apex"
    """apex: actor processes beside the learner; serial: one process, the same for the same seed."""
    run_dir: Path | None = None
    """Where the run is kept; runs/ENV-ALGORITHM-TIME if not set."""
    quiet: Switch = False
    """Show nothing while training."""


@dataclass(frozen=True)
class _ApexOptions(TrainOptions):
    topology: Annotated[Apex, tyro.conf.arg(name="")] = field(default_factory=Apex)


@dataclass(frozen=True)
class _SerialOptions(TrainOptions):
    topology: Annotated[Serial, tyro.conf.arg(name="")] = field(default_factory=Serial)


_KINDS: dict[str, type[TrainOptions]] = {"apex": _ApexOptions, "serial": _SerialOptions}


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code."""
    return start(read_options(arguments))


def start(options: TrainOptions, *, local_actors: bool = True, hint: str = "") -> int:
    """Starts a run and returns its exit code; `hint` is the first thing that its display says."""
    config = _config(options)
    path = options.run_dir or default_run_directory(config.environment, options.algorithm_name, datetime.now())
    heading = Heading(config.environment, options.algorithm_name, options.topology_name, str(path))
    with RunDirectory.create(path, config.to_json()) as directory:
        try:
            from headrace import training

            with open_display(heading, quiet=options.quiet) as display:
                if hint:
                    display.message(hint)
                if config.steps != options.steps:
                    display.message(f"no stop is set: {config.steps:,} steps, as the preset has it")
                result = training.train(config, directory, display, local_actors=local_actors)
        except LaunchError:
            raise
        except (HeadraceError, KeyboardInterrupt):
            directory.discard_unused()  # a mistake in the settings leaves nothing behind
            raise
    return conclude(result)


def read_options(arguments: Sequence[str], prog: str = _PROG, description: str = "Train a policy.") -> TrainOptions:
    """The options of `headrace train`, or of another that takes the same, on top of the environment's preset.

    Raises ConfigError.
    """
    topology = _chosen(arguments, "--topology", "apex")
    kind = _KINDS.get(topology, _ApexOptions)  # a topology that there is not is parse()'s to refuse
    flags = flag_types(kind)
    for other, settings in TOPOLOGIES.items():
        foreign = [flag for flag in flag_types(settings) if flag not in flags and _given(arguments, flag)]
        if foreign:
            raise ConfigError(
                f"{foreign[0]} is a setting of --topology {other}, and this run's is {topology}; "
                f"leave it out or add --topology {other}"
            )
    require_known(arguments, flags, prog)
    words = list(arguments)
    place = find_environment(words, flags)
    if place is None:
        if not {"-h", "--help"} & set(words):
            raise ConfigError(f"{prog.rsplit(maxsplit=1)[-1]} needs an environment: {prog} ENV, such as LunarLander-v3")
        return _parse(kind, words, "", prog=prog, description=description)
    environment = words.pop(place)
    if not {"-h", "--help"} & set(words):  # whose usage shows that one is required
        words.insert(0, environment)
    return _parse(kind, words, environment, prog=prog, description=description)


def _parse(
    kind: type[TrainOptions], words: Sequence[str], environment: str, *, prog: str, description: str
) -> TrainOptions:
    start = preset(environment)
    default = kind(
        environment=environment or tyro.MISSING,
        algorithm=start.algorithm,
        topology=start.serial if kind is _SerialOptions else start.apex,
        evaluation_period_seconds=start.evaluation_period_seconds,
        evaluation_episodes=start.evaluation_episodes,
        final_evaluation_episodes=start.final_evaluation_episodes,
        checkpoint_period_seconds=start.checkpoint_period_seconds,
    )
    topology = "serial" if kind is _SerialOptions else "apex"
    whose = f"those of {environment}" if environment else "general; name an environment to see its own"
    return parse(
        kind,
        words,
        prog=prog,
        default=default,
        description=f"{description} Defaults below are {whose}, with --topology {topology}.",
    )


def _config(options: TrainOptions) -> RunConfig:
    values = {setting.name: getattr(options, setting.name) for setting in dataclasses.fields(RunConfig)}
    if options.steps is None and options.time_limit_seconds is None and options.until_score is None:
        values["steps"] = preset(options.environment).steps
    return RunConfig(**values)


def _given(arguments: Sequence[str], flag: str) -> bool:
    return any(word.split("=")[0].replace("_", "-") == flag for word in arguments)


def _chosen(arguments: Sequence[str], flag: str, default: str) -> str:
    """The value of a flag that other flags depend on, before all is parsed."""
    chosen = default
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == flag:
            chosen = value if equals else "".join(arguments[index + 1 : index + 2])
    return chosen
