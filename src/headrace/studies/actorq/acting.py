"""Actors without a learner: real actor and quantizer processes, and policies published at a set rate.

Also the times of inference alone, over widths and batches.
"""

import contextlib
import dataclasses
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.writers import table_signature
from headrace.environments import describe
from headrace.errors import LaunchError
from headrace.launch.base import Launcher
from headrace.launch.processes import ProcessLauncher
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.networks.timing import measure_precisions
from headrace.parameters.form import PolicyEncoder
from headrace.parameters.snapshot import Snapshot, Stamp
from headrace.report.formats import counted
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.handles import PARAMETERS, POLICY, REPLAY
from headrace.roles.messages import REPORTS, Report
from headrace.roles.publisher import Publisher, graph_blobs, parameter_blobs
from headrace.roles.quantizer import QuantizerRole
from headrace.roles.remote_actor import ActorRole
from headrace.servers import Endpoint, RunServer, open_server
from headrace.studies.actorq.training import PRECISIONS
from headrace.studies.base import Case
from headrace.studies.statistics import median
from headrace.studies.training import ACTOR_PHASES, recorded
from headrace.types import EnvironmentSpec

__all__ = [
    "COLUMNS", "CROSSOVER_COLUMNS", "LOADER_PHASES", "PUBLICATIONS_PER_SECOND", "ActingCase", "CrossoverCase",
    "Energy", "figures_of", "measure_acting", "measure_crossover",
]  # fmt: skip

LOADER_PHASES = ("fetch", "deserialize", "load")
PUBLICATIONS_PER_SECOND = 4.0
"""The published learner's rate: about one publication per 30 steps of the fp32 actor, which take 10 ms each."""
_POWERCAP = Path("/sys/class/powercap")
_START_SECONDS = 120.0
_WARM_UP_SECONDS = 1.0
_POLL_SECONDS = 0.02
_CAPACITY = 20_000
_CHUNK_STEPS = 50
_N_STEP, _DISCOUNT = 5, 0.99
_EXPLORATION = 0.1
_BITS = 32
_LAYERS = 3
_SPEC = EnvironmentSpec((17,), "float32", actions=6, continuous=True)  # cheetah-run's

LauncherFactory = Callable[[Endpoint, Path], Launcher]
_Reported = Mapping[int, Report]
"""A report of each actor."""


@dataclass(frozen=True)
class ActingCase(Case):
    """One measurement; without publications the first policy acts all the time."""

    prefix = "acting"

    task: str
    environment: str
    hidden: tuple[int, ...]
    precision: Precision
    actors: int
    pull_period: int
    publications_per_second: float
    seconds: float
    round: int

    def __str__(self) -> str:
        period = f", pull period {self.pull_period}" if self.publications_per_second else ""
        return f"{self.task}, {self.precision}, {counted(self.actors, 'actor')}{period}"

    def settings(self) -> list[object]:
        """The fields, and what all cases have in common."""
        fixed = (_CAPACITY, _CHUNK_STEPS, _N_STEP, _DISCOUNT, _EXPLORATION, _BITS, _WARM_UP_SECONDS)
        return [dataclasses.asdict(self), fixed]


@dataclass(frozen=True)
class CrossoverCase(Case):
    """Inference of a policy with three layers of one width, for one batch size."""

    prefix = "crossover"

    width: int
    batch: int

    def __str__(self) -> str:
        return f"width {self.width}, batch {self.batch}"

    def settings(self) -> list[object]:
        """The fields, and what all cases have in common."""
        return [self.width, self.batch, _LAYERS, dataclasses.asdict(_SPEC)]


_SECONDS = (*ACTOR_PHASES, *(f"beside_{phase}" for phase in LOADER_PHASES))
COLUMNS = (
    *(field.name for field in dataclasses.fields(ActingCase)),
    *("steps_per_second", "policies_installed", *(f"{name}_s_per_1000" for name in _SECONDS)),
    *("parameter_share", "refresh_ms", "joules_per_1000"),
)
"""Columns of a row of figures_of()."""
CROSSOVER_COLUMNS = ("width", "batch", "fp32_us", "fp16_us", "int8_us", "int8_speedup", "fp16_speedup")
"""Columns of a row of measure_crossover()."""


def measure_crossover(case: CrossoverCase) -> dict[str, Any]:
    """One row: microseconds of an inference in each precision, on one core."""
    seconds = measure_precisions(Architecture.of(_SPEC, "mlp", (case.width,) * _LAYERS), case.batch)
    return {
        **{"width": case.width, "batch": case.batch},
        **{f"{precision}_us": 1e6 * seconds[precision] for precision in PRECISIONS},
        **{f"{precision}_speedup": seconds["fp32"] / seconds[precision] for precision in ("int8", "fp16")},
    }


class Energy:
    """RAPL's counters of the processor's packages, which include all processes on the machine.

    `why_not` says why the counters can't be read; it is empty if they can.
    """

    def __init__(self, folder: Path = _POWERCAP) -> None:
        packages = sorted(folder.glob("intel-rapl:[0-9]*")) if folder.is_dir() else []
        self._packages = [package for package in packages if package.name.count(":") == 1]  # two are parts of a package
        self.why_not = ""
        if not self._packages:
            self.why_not = f"{folder} has no intel-rapl package: the processor, or what runs this machine, hides it"
        for package in self._packages:
            if not os.access(package / "energy_uj", os.R_OK):
                self.why_not = f"{package / 'energy_uj'} can be read by root alone"

    def joules(self) -> list[float]:
        """Each package's counter, for since(); empty if there is none."""
        return [] if self.why_not else [_joules(package / "energy_uj") for package in self._packages]

    def since(self, before: list[float]) -> float | None:
        """Joules of all packages since joules() returned `before`; None if they can't be read.

        A counter may have wrapped around to 0 meanwhile, at most once.
        """
        if self.why_not:
            return None
        spent = 0.0
        for package, begin, end in zip(self._packages, before, self.joules(), strict=True):
            spent += end - begin if end >= begin else end - begin + _joules(package / "max_energy_range_uj")
        return spent


def _joules(path: Path) -> float:
    return int(path.read_text()) * 1e-6


def measure_acting(case: ActingCase, launcher: LauncherFactory = ProcessLauncher) -> dict[str, Any]:
    """One row: the case, then its figures; seconds and joules are per 1,000 steps of all actors.

    Raises LaunchError if a process ends or does not start in time.
    """
    spec = describe(case.environment)
    architecture = Architecture.of(spec, "mlp", case.hidden)
    energy = Energy()
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(open_server(None)) as server:
        server.add_table(
            REPLAY.name, table_signature(spec), fresh=True, capacity=_CAPACITY, capacity_bytes=0, sampler="uniform"
        )
        with _policies(case, architecture, server) as roles:
            reports = _Reports(server, launcher(server.endpoint, Path(folder)), [*roles, *_actors(case, spec)])
            with contextlib.closing(reports):
                reports.start()
                reports.until(lambda newest: sum(each["acted"]["steps"] > 0 for each in newest.values()) == case.actors)
                reports.listen(_WARM_UP_SECONDS)
                before, joules = reports.latest(case.actors), energy.joules()
                reports.latencies.clear()  # of the start
                reports.listen(case.seconds)
                after, spent = reports.latest(case.actors), energy.since(joules)
                latencies = reports.latencies
    return figures_of(case, before, after, latencies, spent)


def figures_of(
    case: ActingCase, before: _Reported, after: _Reported, latencies: Sequence[float], joules: float | None
) -> dict[str, Any]:
    """The window between two reports of each actor; raises LaunchError if no actor made a step in it."""
    begin, end = _totals(before), _totals(after)
    spent = {name: end[name] - begin[name] for name in end}
    steps, acted = spent["steps"], sum(spent[phase] for phase in ACTOR_PHASES)
    if not steps or not acted:
        raise LaunchError(f"{case}: no actor made a step in {case.seconds:g} s")
    return {
        **dataclasses.asdict(case),
        "hidden": "x".join(map(str, case.hidden)),
        "steps_per_second": case.actors * steps / acted,
        "policies_installed": spent["installed"],
        **{f"{name}_s_per_1000": 1e3 * spent[name] / steps for name in _SECONDS},
        "parameter_share": (spent["pull"] + spent["load"]) / acted,
        "refresh_ms": 1e3 * median(latencies) if latencies else None,
        "joules_per_1000": None if joules is None else 1e3 * joules / steps,
    }


def _totals(reports: _Reported) -> dict[str, Any]:
    """Counts and seconds of all actors."""
    found: dict[str, Any] = {}
    for report in reports.values():
        acted, refreshed = report["acted"], report["refreshed"]
        loading = {f"beside_{phase}": refreshed["seconds"][phase] for phase in LOADER_PHASES}
        counts = {"steps": acted["steps"], "installed": refreshed["count"], **recorded(acted["seconds"]), **loading}
        found = {name: found.get(name, 0) + value for name, value in counts.items()}
    return found


class _Reports:
    """The roles of a case, and the newest report of each actor. One thread."""

    def __init__(self, server: RunServer, launcher: Launcher, roles: list[Role]) -> None:
        self._server = server
        self._launcher = launcher
        self._roles = roles
        self._newest: dict[int, Report] = {}
        self._counts: dict[int, int] = {}
        self.latencies: list[float] = []
        """Seconds from publication to installation of the newest policy in each report."""

    def start(self) -> None:
        """Starts the roles; close() ends those that were started also where one can't be."""
        for role in self._roles:
            self._launcher.start(role)

    def listen(self, seconds: float) -> None:
        """Takes reports for this long; raises LaunchError if a process ends."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            for ended in self._launcher.poll():
                raise LaunchError(f"{ended.role.name} ended ({ended.reason}): {ended.message}")
            for report in map(json.loads, self._server.drain(REPORTS)):
                if "refreshed" in report:  # others only say that a role is alive
                    self._take(report)

    def until(self, holds: Callable[[_Reported], bool]) -> None:
        """Takes reports until a condition holds for the newest ones; raises LaunchError if it does not in time."""
        deadline = time.monotonic() + _START_SECONDS
        while not holds(self._newest):
            if time.monotonic() > deadline:
                raise LaunchError(f"the actors made no step in {_START_SECONDS:.0f} s")
            self.listen(_POLL_SECONDS)

    def latest(self, actors: int) -> _Reported:
        """The next report of each actor."""
        self._newest.clear()
        self.until(lambda newest: len(newest) == actors)
        return dict(self._newest)

    def close(self) -> None:
        """Ends the processes."""
        self._launcher.stop(self._roles)

    def _take(self, report: Report) -> None:
        index, refreshed = report["index"], report["refreshed"]
        if refreshed["count"] > self._counts.get(index, 0) and refreshed["latency_seconds"] is not None:
            self.latencies.append(refreshed["latency_seconds"])
        self._counts[index] = refreshed["count"]
        self._newest[index] = report


def _actors(case: ActingCase, spec: EnvironmentSpec) -> list[Role]:
    settings: dict[str, Any] = {"n_step": _N_STEP, "discount": _DISCOUNT}
    common = ActorSettings(
        environment=case.environment,
        seed=case.round,
        first_environment=0,
        exploration=(_EXPLORATION,),
        algorithm=D4PG(**settings) if spec.continuous else DQN(**settings),
        chunk_steps=_CHUNK_STEPS,
        values=not spec.continuous,
        spec=spec,
        pull_period=case.pull_period,
        precision=case.precision,
    )
    each = [dataclasses.replace(common, first_environment=index) for index in range(case.actors)]
    return [ActorRole(index, actor, POLICY, REPLAY) for index, actor in enumerate(each)]


@contextlib.contextmanager
def _policies(case: ActingCase, architecture: Architecture, server: RunServer) -> Iterator[list[Role]]:
    """A context in which policies are published; its value is the roles of the case."""
    layout = architecture.layout
    weights = layout.views(layout.initial(np.random.default_rng(0)))
    if not case.publications_per_second:
        policy = PolicyEncoder(architecture, case.precision, _BITS).encode(weights)
        for name, data in POLICY.blobs(policy, Stamp.now()).items():
            server.publish(name, data, 1)
        yield []
        return
    quantized = case.precision != "fp32"
    encode = parameter_blobs(PARAMETERS) if quantized else graph_blobs(PolicyGraph(architecture), POLICY)
    ended = threading.Event()

    def publish(publisher: Publisher) -> None:
        version = 0
        while not ended.is_set():
            version += 1
            snapshot = Snapshot({name: np.copy(value) for name, value in weights.items()}, None, Stamp.now())
            publisher.offer(snapshot, version)
            ended.wait(1 / case.publications_per_second)

    with contextlib.closing(Publisher(server, encode)) as publisher:
        thread = threading.Thread(target=publish, args=(publisher,), name="synthetic-learner", daemon=True)
        thread.start()
        try:
            yield [QuantizerRole(0, architecture, case.precision, _BITS, PARAMETERS, POLICY)] if quantized else []
        finally:
            ended.set()
            thread.join()
