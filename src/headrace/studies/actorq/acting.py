"""Actors without a learner: real actor and quantizer processes, and policies published at a set rate."""

import contextlib
import dataclasses
import json
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
from headrace.launch import Launcher, ProcessLauncher
from headrace.networks import Architecture, PolicyGraph
from headrace.networks.precision import Precision
from headrace.parameters.form import PolicyEncoder
from headrace.parameters.snapshot import Snapshot, Stamp
from headrace.report.formats import counted
from headrace.roles.actor import ActorSettings
from headrace.roles.base import REPORTS, Role
from headrace.roles.handles import PARAMETERS, POLICY, REPLAY
from headrace.roles.publisher import Publisher, graph_blobs, parameter_blobs
from headrace.roles.quantizer import QuantizerRole
from headrace.roles.remote_actor import ActorRole
from headrace.servers import Endpoint, RunServer, open_server
from headrace.studies.actorq.energy import Energy
from headrace.studies.phases import ACTOR_PHASES, recorded
from headrace.studies.sheet import fingerprint
from headrace.studies.statistics import median
from headrace.types import EnvironmentSpec

__all__ = ["COLUMNS", "LOADER_PHASES", "ActingCase", "figures_of", "measure_acting"]

LOADER_PHASES = ("fetch", "deserialize", "load")
_START_SECONDS = 120.0
_WARM_UP_SECONDS = 1.0
_POLL_SECONDS = 0.02
_CAPACITY = 20_000
_CHUNK_STEPS = 50
_N_STEP, _DISCOUNT = 5, 0.99
_EXPLORATION = 0.1
_BITS = 32

LauncherFactory = Callable[[Endpoint, Path], Launcher]


@dataclass(frozen=True)
class ActingCase:
    """One measurement; without publications the first policy acts all the time."""

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

    @property
    def name(self) -> str:
        """A name that is equal for equal settings, including those that all cases share."""
        fixed = (_CAPACITY, _CHUNK_STEPS, _N_STEP, _DISCOUNT, _EXPLORATION, _BITS, _WARM_UP_SECONDS)
        return fingerprint("acting", [dataclasses.asdict(self), fixed])


COLUMNS = (
    *(field.name for field in dataclasses.fields(ActingCase)),
    "steps_per_second",
    "policies_installed",
    *(f"{phase}_s_per_1000" for phase in ACTOR_PHASES),
    *(f"beside_{phase}_s_per_1000" for phase in LOADER_PHASES),
    "parameter_share",
    "refresh_ms",
    "joules_per_1000",
)
"""Columns of a row of figures_of()."""


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
                reports.until(lambda: reports.moving(case.actors))
                reports.listen(_WARM_UP_SECONDS)
                before, joules = reports.latest(case.actors), energy.joules()
                reports.latencies.clear()  # of the start
                reports.listen(case.seconds)
                after, spent = reports.latest(case.actors), energy.since(joules)
                latencies = reports.latencies
    return figures_of(case, before, after, latencies, spent)


def figures_of(
    case: ActingCase,
    before: Mapping[int, Mapping[str, Any]],
    after: Mapping[int, Mapping[str, Any]],
    latencies: Sequence[float],
    joules: float | None,
) -> dict[str, Any]:
    """The window between two reports of each actor; raises LaunchError if no actor made a step in it."""
    steps = sum(after[index]["steps"] - before[index]["steps"] for index in after)
    clocks = [(recorded(after[index]["seconds"]), recorded(before[index]["seconds"])) for index in after]
    seconds = {phase: sum(end[phase] - begin[phase] for end, begin in clocks) for phase in ACTOR_PHASES}
    loader = {
        phase: sum(after[i]["refresh"]["seconds"][phase] - before[i]["refresh"]["seconds"][phase] for i in after)
        for phase in LOADER_PHASES
    }
    acted = sum(seconds.values())
    if not steps or not acted:
        raise LaunchError(f"{case}: no actor made a step in {case.seconds:g} s")
    policies = sum(after[index]["refresh"]["count"] - before[index]["refresh"]["count"] for index in after)
    return {
        **dataclasses.asdict(case),
        "hidden": "x".join(map(str, case.hidden)),
        "steps_per_second": case.actors * steps / acted,
        "policies_installed": policies,
        **{f"{phase}_s_per_1000": 1e3 * value / steps for phase, value in seconds.items()},
        **{f"beside_{phase}_s_per_1000": 1e3 * value / steps for phase, value in loader.items()},
        "parameter_share": (seconds["pull"] + seconds["load"]) / acted,
        "refresh_ms": 1e3 * median(latencies) if latencies else None,
        "joules_per_1000": None if joules is None else 1e3 * joules / steps,
    }


class _Reports:
    """The roles of a case, and the newest report of each actor. One thread."""

    def __init__(self, server: RunServer, launcher: Launcher, roles: list[Role]) -> None:
        self._server = server
        self._launcher = launcher
        self._roles = roles
        self._newest: dict[int, dict[str, Any]] = {}
        self._counts: dict[int, int] = {}
        self.latencies: list[float] = []
        """Seconds from publication to installation of the newest policy in each report."""
        for role in roles:
            launcher.start(role)

    def moving(self, actors: int) -> bool:
        """Whether all actors have started."""
        return sum(1 for report in self._newest.values() if report["steps"] > 0) == actors

    def listen(self, seconds: float) -> None:
        """Takes reports for this long; raises LaunchError if a process ends."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            for ended in self._launcher.poll():
                raise LaunchError(f"{ended.role.name} ended ({ended.reason}): {ended.message}")
            for message in self._server.drain(REPORTS):
                report = json.loads(message)
                if report["role"] == "actor":
                    self._take(report)

    def until(self, holds: Callable[[], bool]) -> None:
        """Takes reports until a condition holds; raises LaunchError if it does not in time."""
        deadline = time.monotonic() + _START_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                raise LaunchError(f"the actors made no step in {_START_SECONDS:.0f} s")
            self.listen(_POLL_SECONDS)

    def latest(self, actors: int) -> dict[int, dict[str, Any]]:
        """The next report of each actor."""
        self._newest.clear()
        self.until(lambda: len(self._newest) == actors)
        return dict(self._newest)

    def close(self) -> None:
        """Ends the processes."""
        self._launcher.stop(self._roles)

    def _take(self, report: dict[str, Any]) -> None:
        if "refresh" not in report:
            return  # it only says that the actor is alive
        index, refresh = report["index"], report["refresh"]
        if refresh["count"] > self._counts.get(index, 0) and refresh["latency_seconds"] is not None:
            self.latencies.append(refresh["latency_seconds"])
        self._counts[index] = refresh["count"]
        self._newest[index] = report


def _actors(case: ActingCase, spec: EnvironmentSpec) -> list[Role]:
    settings: dict[str, Any] = {"n_step": _N_STEP, "discount": _DISCOUNT}
    actors = [
        ActorSettings(
            environment=case.environment,
            seed=case.round,
            first_environment=index,
            exploration=(_EXPLORATION,),
            algorithm=D4PG(**settings) if spec.continuous else DQN(**settings),
            chunk_steps=_CHUNK_STEPS,
            values=not spec.continuous,
            spec=spec,
            pull_period=case.pull_period,
            precision=case.precision,
        )
        for index in range(case.actors)
    ]
    return [ActorRole(index, each, POLICY, REPLAY) for index, each in enumerate(actors)]


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
    publisher = Publisher(
        server, parameter_blobs(PARAMETERS) if quantized else graph_blobs(PolicyGraph(architecture), POLICY)
    )
    ended = threading.Event()

    def publish() -> None:
        version = 0
        while not ended.is_set():
            version += 1
            snapshot = Snapshot({name: np.copy(value) for name, value in weights.items()}, None, Stamp.now())
            publisher.offer(snapshot, version)
            ended.wait(1 / case.publications_per_second)

    thread = threading.Thread(target=publish, name="synthetic-learner", daemon=True)
    thread.start()
    try:
        yield [QuantizerRole(0, architecture, case.precision, _BITS, PARAMETERS, POLICY)] if quantized else []
    finally:
        ended.set()
        thread.join()
        publisher.close()
