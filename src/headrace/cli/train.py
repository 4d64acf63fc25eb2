"""`headrace train`: runs training with settings from the environment's preset and the command line."""

import dataclasses
import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import tyro

from headrace.algorithms.registry import ALGORITHMS
from headrace.cli.arguments import (
    Environment,
    MetricsListen,
    Seconds,
    ServerOptions,
    Switch,
    TimeLimit,
    find_environment,
    flag_types,
    given_flags,
    parse,
    repeating,
    require_known,
)
from headrace.cli.ending import FAILURES, conclude, repeatable
from headrace.cli.sinks import TrackerName, open_sinks
from headrace.errors import ConfigError
from headrace.launch.registry import LAUNCHERS
from headrace.registry import Registry
from headrace.report import Heading, RunDirectory, open_display
from headrace.settings import RunConfig, preset
from headrace.signals import held_back
from headrace.topologies.registry import TOPOLOGIES

__all__ = [
    "RunOptions",
    "TrainOptions",
    "options_type",
    "read_options",
    "read_run_options",
    "run",
    "start",
]

Options = TypeVar("Options", bound="RunOptions")

_PROG = "headrace train"
_REGISTRIES: dict[str, Registry[Any]] = {"algorithm": ALGORITHMS, "topology": TOPOLOGIES, "launcher": LAUNCHERS}


@dataclass(frozen=True)
class RunOptions(RunConfig):
    """Every setting of a run as a flag; options_type() adds those of an algorithm and a topology."""

    environment: Environment
    steps: int | None = None
    """Environment steps of all actors or workers after which the run stops; without a stopping rule, the preset's."""
    time_limit_seconds: TimeLimit = None
    """Training time (evaluations excluded) after which the run stops: 90, 90s, 10m or 2h."""
    evaluation_period_seconds: Seconds = RunConfig.evaluation_period_seconds
    checkpoint_period_seconds: Seconds = RunConfig.checkpoint_period_seconds
    hang_seconds: Seconds = RunConfig.hang_seconds
    server: Annotated[ServerOptions, tyro.conf.arg(name="")] = field(default_factory=ServerOptions)
    algorithm_name: str = "dqn"
    """Name of the algorithm."""
    topology_name: str = "apex"
    """Name of the topology."""
    launcher_name: str = "processes"
    """Name of the launcher."""
    frugal: Switch = False
    """Take the sample-efficient preset: few environment steps rather than few seconds (`headrace presets --frugal`)."""
    quiet: Switch = False
    """Show nothing during training."""

    def to_config(self) -> RunConfig:
        """The same settings for a run; without a stopping rule, the preset's steps."""
        values = {setting.name: getattr(self, setting.name) for setting in dataclasses.fields(RunConfig)}
        values["server"] = self.server.to_config()
        if self.steps is None and self.time_limit_seconds is None and self.until_score is None:
            values["steps"] = preset(self.environment, self.algorithm_name, frugal=self.frugal).steps
        return RunConfig(**values)


@dataclass(frozen=True)
class TrainOptions(RunOptions):
    """The settings of a run, and its directory."""

    run_dir: Path | None = None
    """Run directory; runs/ENV-ALGORITHM-TIME if not set."""
    metrics_listen: MetricsListen = None
    """Serve metrics for Prometheus on HOST:PORT, or PORT of this machine only; anyone who can connect may read them.
    The address is printed, even with --quiet."""
    track: TrackerName | None = None
    """Send the numbers that TensorBoard gets to an experiment tracker too."""


@functools.cache
def options_type(
    algorithm: str,
    topology: str,
    launcher: str = "processes",
    base: type[RunOptions] = TrainOptions,
) -> type[Any]:
    """A command's options with the settings of this algorithm, topology and launcher as flags."""
    chosen: list[tuple[str, Any, Any]] = []
    for name, part in (("algorithm", algorithm), ("topology", topology), ("launcher", launcher)):
        kind = _REGISTRIES[name].find(part)
        chosen.append((name, Annotated[kind, tyro.conf.arg(name="")], field(default_factory=kind)))
    algorithms = {
        name: f"{kind.summary} ({' or '.join(kind.action_kinds)} actions)" for name, kind in ALGORITHMS.known().items()
    }
    topologies: dict[str, str] = {name: kind.summary for name, kind in TOPOLOGIES.known().items()}
    launchers: dict[str, str] = {name: kind.summary for name, kind in LAUNCHERS.known().items()}
    default = f"{ALGORITHMS.find(algorithm).default_topology}, or serial with --frugal"
    chosen += [
        ("algorithm_name", _one_of("algorithm", (*ALGORITHMS.names, algorithm), algorithms, "the preset's"), algorithm),
        ("topology_name", _one_of("topology", (*TOPOLOGIES.names, topology), topologies, default), topology),
        ("launcher_name", _one_of("launcher", (*LAUNCHERS.names, launcher), launchers, "processes"), launcher),
    ]
    return dataclasses.make_dataclass("ChosenOptions", chosen, bases=(base,), frozen=True)


def _one_of(flag: str, names: tuple[str, ...], summaries: Mapping[str, str], default: str) -> Any:
    """The type of a flag whose value is one of these names, of which the last may be one of the others."""
    described = "; ".join(f"{name}: {summary}" for name, summary in summaries.items())
    words = tyro.conf.arg(name=flag, help=f"{described}; package.module:Class: yours. Not given: {default}.")
    return Annotated[Literal[tuple(dict.fromkeys(names))], words]


def run(arguments: Sequence[str]) -> int:
    """Trains; returns the exit code. A run that fails in simulated time names the command that repeats it."""
    options = read_options(arguments)
    try:
        return start(options)
    except FAILURES as error:
        if not options.launcher.repeatable:
            raise
        raise repeatable(error, [*_PROG.split(), *repeating(arguments, "run-dir")]) from error


def start(options: TrainOptions, *, local_actors: bool = True) -> int:
    """Starts a run and returns its exit code; without `local_actors`, actors and workers are started separately."""
    config = options.to_config()
    with (
        open_sinks(config, options.metrics_listen, options.track) as sinks,
        RunDirectory.create_for(config, options.run_dir) as directory,
        directory.discarded_unless_used(),
    ):
        with held_back():
            from headrace import training
        with open_display(Heading.of(config, directory.shown), quiet=options.quiet) as display:
            sinks.attach(directory)
            if config.steps != options.steps:
                display.message(f"no stopping rule is set: the run stops after {config.steps:,} steps")
            result = training.train(config, directory, display, local_actors=local_actors)
    return conclude(result)


def read_options(arguments: Sequence[str], prog: str = _PROG, description: str = "Train a policy.") -> TrainOptions:
    """Reads the options of `headrace train`, or of another command with the same options; see read_run_options()."""
    return read_run_options(TrainOptions, arguments, prog, description)


def read_run_options(base: type[Options], arguments: Sequence[str], prog: str, description: str) -> Options:
    """Reads the options of a command that takes the settings of a run; defaults are the preset's.

    Raises ConfigError for any mistake.
    """
    words = list(arguments)
    index = find_environment(words, _every_flag(base))
    environment = words.pop(index) if index is not None else ""
    frugal = bool(environment) and "--frugal" in words
    asked = {choice: _chosen(words, f"--{choice}", registry) for choice, registry in _REGISTRIES.items()}
    known = preset(environment, asked["algorithm"], frugal=frugal)
    algorithm = asked["algorithm"] or ALGORITHMS.name_of(known.algorithm)
    topology = asked["topology"] or known.topology_name
    launcher = asked["launcher"] or "processes"
    parts = {"algorithm": algorithm, "topology": topology, "launcher": launcher}
    own = _own_flags(base, parts)
    for choice, chosen in parts.items():
        _require_own(words, own, choice, chosen)
    kind = options_type(algorithm, topology, launcher, base)  # type: ignore[arg-type]  # a class has a hash
    require_known(words, flag_types(kind), prog)
    if not {"-h", "--help"} & set(words):  # the help shows that an environment is required
        if not environment:
            raise ConfigError(f"{prog.rsplit(maxsplit=1)[-1]} needs an environment: {prog} ENV, such as LunarLander-v3")
        words.insert(0, environment)
    default: Options = kind(
        environment=environment or "ENV",
        algorithm=known.algorithm,
        topology=known.topology(topology),
        algorithm_name=algorithm,
        topology_name=topology,
        launcher=LAUNCHERS.find(launcher)(),
        launcher_name=launcher,
        **known.periods(),
    )
    if not environment:
        object.__setattr__(default, "environment", tyro.MISSING)  # no check of a setting accepts this value
    whose = f"those of {environment}" if environment else "general; name an environment to see its own"
    defaults = f"Defaults below are {whose}, with --algorithm {algorithm} --topology {topology}."
    read: Options = parse(kind, words, prog=prog, default=default, description=f"{description} {defaults}")
    for flag in given_flags(words):
        if flag.startswith("--"):
            read.require_effect(flag[2:].replace("-", "_"))
    return read


def _every_flag(base: type[RunOptions]) -> dict[str, Any]:
    """The flags of a run and of all algorithms, topologies and launchers."""
    flags: dict[str, Any] = {}
    for kinds in _REGISTRIES.values():
        for kind in kinds.known().values():
            flags |= flag_types(kind)
    return flags | flag_types(base)


def _own_flags(base: type[RunOptions], parts: Mapping[str, str]) -> dict[str, str]:
    """The flags of a run and of its parts, and whose they are; raises ConfigError for one that two of them have."""
    contracts = get_type_hints(base)
    owners = dict.fromkeys(flag_types(base), "the run")
    for choice in parts:
        for flag in flag_types(contracts[choice]):
            del owners[flag]  # each part has those of its contract
    for choice, chosen in parts.items():
        for flag in flag_types(_REGISTRIES[choice].find(chosen)):
            if flag in owners:
                raise ConfigError(
                    f"{flag} is a setting of --{choice} {chosen} and one of {owners[flag]}; another name is required"
                )
            owners[flag] = f"--{choice} {chosen}"
    return owners


def _require_own(words: Sequence[str], own: Container[str], choice: str, chosen: str) -> None:
    """Raises ConfigError for a flag that no part of the run has, but another kind of this part does."""
    flags = {other: flag_types(kind) for other, kind in _REGISTRIES[choice].known().items()}
    for flag in given_flags(words):
        owners = [other for other, theirs in flags.items() if flag in theirs]
        if owners and flag not in own:
            raise ConfigError(
                f"{flag} is a setting of --{choice} {' or '.join(owners)}, and this run's is {chosen}; "
                f"leave it out or add --{choice} {owners[0]}"
            )


def _chosen(words: Sequence[str], flag: str, registry: Registry[Any]) -> str | None:
    """Reads a flag that determines other flags, before parse(); returns None for a value that parse() will refuse."""
    chosen = ""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            chosen = value if equals else "".join(words[index + 1 : index + 2])
    return chosen if chosen in registry.names or ":" in chosen else None
