"""From the learner's publish to installation in an actor of 3x2048, batch 1: latency, stall, shares of time, bytes.

The learner's publisher and the server run in this process, a quantizer and an actor in separate processes, connected
by a Unix socket. The learner publishes four times per second and does nothing else, and the environment takes no
time: the actor's steps are nearly all inference. The stall of a publication is the longest gap between two steps minus
a normal gap; the figure is the median over publications, and its peer is the same without publications. It is measured
again with the acting thread alone on one core and all others on the other cores: the difference is what the thread
waits for a core. Without publications the gap there is what other programs and the hypervisor take.

Time on parameters has three figures. The acting thread's time, which the requirement bounds, is the time that it
waits: to wake the refresh thread, and to take the policy that is ready. The refresh thread's time is spent in
parallel: fetches (including those without a newer policy), decodes and loads. The slowdown is the cost of both: the
steps per second lost compared with no publications.
"""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.measure import Row, at_most, make_parser, report, require, run, warn_if_busy
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.writers import table_signature
from headrace.errors import ConfigError, LaunchError
from headrace.launch.processes import ProcessLauncher
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.parameters.snapshot import Snapshot, Stamp
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.handles import PARAMETERS, POLICY, REPLAY
from headrace.roles.messages import REPORTS, Report
from headrace.roles.publisher import Publisher, graph_blobs, parameter_blobs
from headrace.roles.quantizer import QuantizerRole
from headrace.roles.remote_actor import ActorRole
from headrace.servers import EmbeddedServer
from headrace.types import Array, EnvironmentSpec

__all__ = ["Ticking"]

_INPUTS, _ACTIONS = 17, 6  # cheetah-run's
_PROBE_ROWS = 16  # as a learner sends: the quantizer uses them to measure its error
_SPEC = EnvironmentSpec((_INPUTS,), "float32", _ACTIONS, continuous=True)
_HIDDEN = (2048, 2048, 2048)
_TICKS, _CORE = "HEADRACE_BENCHMARK_TICKS", "HEADRACE_BENCHMARK_CORE"
_PERIOD_SECONDS = 0.25
_QUIET_SECONDS = 4.0
_PUBLICATIONS = 40
_WARM = 4
_REPEATS = 3
"""Of the stall of a thread alone on a core: one measurement varies from 0.5 to 1.7 ms."""
_START_SECONDS = 60.0
_PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8")
_Result = tuple[Array, float, bool, bool, dict[str, Any]]


class Ticking(gymnasium.Env[Array, Array]):
    """Takes no time, never ends, and records the time of each step."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (_INPUTS,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (_ACTIONS,), np.float32)
        self._observation = np.linspace(-1, 1, _INPUTS, dtype=np.float32)
        self._ticks: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Returns the constant observation."""
        super().reset(seed=seed, options=options)
        return self._observation, {}

    def step(self, action: Array) -> _Result:
        """Returns the constant observation again."""
        if not self._ticks and _CORE in os.environ:
            os.sched_setaffinity(0, {int(os.environ[_CORE])})  # of the acting thread
        self._ticks.append(time.monotonic())
        return self._observation, 0.0, False, False, {}

    def close(self) -> None:
        """Writes the times of all steps to the file that the environment variable names."""
        if self._ticks:
            np.save(os.environ[_TICKS], np.array(self._ticks))


class _Measured(NamedTuple):
    latencies: list[float]
    stall: float
    quiet_stall: float
    acting_share: float
    refresh_share: float
    slowdown: float
    bytes: int
    parameter_bytes: int
    step: float


class _Bench:
    """Server, publisher, and the actor's reports."""

    def __init__(self, precision: Precision, pull_period: int, folder: Path) -> None:
        self._server = EmbeddedServer()
        self._server.add_table(REPLAY.name, table_signature(_SPEC), fresh=True, capacity=100_000)
        architecture = Architecture.of(_SPEC, "mlp", _HIDDEN)
        quantizes = precision != "fp32"
        self._publisher = Publisher(
            self._server, parameter_blobs(PARAMETERS) if quantizes else graph_blobs(PolicyGraph(architecture), POLICY)
        )
        self._random = np.random.default_rng(0)
        shapes = {name: value.shape for name, value in _template(architecture).items()}
        self._weights = {
            name: self._random.standard_normal(shape, np.float32) / np.float32(shape[-1]) ** 0.5
            for name, shape in shapes.items()
        }
        self._probe = self._random.standard_normal((_PROBE_ROWS, _INPUTS), np.float32)
        self._version = 0
        self._launcher = ProcessLauncher(self._server.endpoint, folder)
        settings = ActorSettings(
            "benchmarks.refresh:Ticking",
            *(0, 0, (0.0,), D4PG(n_step=1, discount=0.99), 50),
            values=False,
            spec=_SPEC,
            pull_period=pull_period,
            precision=precision,
        )
        self._roles: list[Role] = [ActorRole(0, settings, POLICY, REPLAY)]
        if quantizes:
            self._roles.append(QuantizerRole(0, architecture, precision, 32, PARAMETERS, POLICY))
        self._ticks = folder / "ticks.npy"
        self._heard: Report | None = None
        self._latencies: dict[int, float] = {}

    def measure(self) -> _Measured:
        """Starts the roles, publishes for a while, and ends them."""
        try:
            os.environ[_TICKS] = str(self._ticks)
            for role in self._roles:
                self._launcher.start(role)
            self._publish()
            self._await_start()
            for _ in range(_WARM):
                self._publish()
                self._listen(_PERIOD_SECONDS)
            quiet = time.monotonic()
            self._listen(_QUIET_SECONDS)
            begin, before = time.monotonic(), self._heard
            published = []
            for _ in range(_PUBLICATIONS):
                published.append(time.monotonic())
                self._publish()
                self._listen(_PERIOD_SECONDS)
            end = time.monotonic()
            policy, parameters = (self._server.fetch(name) for name in (POLICY.name, PARAMETERS.name))
            assert policy is not None
            assert before is not None
            assert self._heard is not None
        finally:
            os.environ.pop(_TICKS, None)
            self._launcher.stop(self._roles)
            self._publisher.close()
            self._server.close()
        ticks = np.load(self._ticks)
        first = before["refreshed"]["count"]
        return _Measured(
            [seconds for count, seconds in self._latencies.items() if count > first],
            statistics.median(_stalls(ticks, published)),
            statistics.median(_stalls(ticks, list(np.arange(quiet, begin, _PERIOD_SECONDS)))),
            *_shares(before, self._heard),
            1 - _rate(ticks, begin, end) / _rate(ticks, quiet, begin),
            len(policy[1]),
            len(parameters[1]) if parameters else 0,
            float(np.median(np.diff(ticks))),
        )

    def _publish(self) -> None:
        self._version += 1
        scale = np.float32(0.999**self._version)  # a different policy every time
        weights = {name: scale * value for name, value in self._weights.items()}
        self._publisher.offer(Snapshot(weights, self._probe, Stamp.now()), self._version)

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self._heard is None or not self._heard["acted"]["steps"]:
            for ended in self._launcher.poll():
                raise LaunchError(f"{ended.role.name}: {ended.reason}: {ended.message}")
            if time.monotonic() > deadline:
                raise LaunchError(f"the actor did not act within {_START_SECONDS:.0f} s")
            self._listen(0.1)

    def _listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            for message in self._server.drain(REPORTS):
                report: Report = json.loads(message)
                if "refreshed" in report:
                    self._heard = report
                    latency = report["refreshed"]["latency_seconds"]
                    if latency is not None:
                        self._latencies[report["refreshed"]["count"]] = latency
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))


def _template(architecture: Architecture) -> dict[str, Array]:
    return architecture.layout.views(architecture.layout.initial(np.random.default_rng(0)))


def _stalls(ticks: Array, windows: list[float]) -> list[float]:
    """The longest gap between two steps in each window, minus a normal gap."""
    gaps = np.diff(ticks)
    normal = np.median(gaps)
    found = []
    for begin in windows:
        inside = gaps[(ticks[1:] > begin) & (ticks[:-1] < begin + _PERIOD_SECONDS)]
        if len(inside):
            found.append(float(inside.max() - normal))
    return found


def _rate(ticks: Array, begin: float, end: float) -> float:
    """Steps per second."""
    return float(((ticks > begin) & (ticks <= end)).sum() / (end - begin))


def _shares(before: Report, after: Report) -> tuple[float, float]:
    """Shares of the time between two reports that the acting and the refresh thread spend on parameters."""
    begin, end = before["acted"]["seconds"], after["acted"]["seconds"]
    acting = {phase: seconds - begin[phase] for phase, seconds in end.items()}
    refreshing = sum(after["refreshed"]["seconds"].values()) - sum(before["refreshed"]["seconds"].values())
    wall = sum(acting.values())
    return (acting["pull"] + acting["load"]) / wall, refreshing / wall


def _measure(precision: Precision, pull_period: int, *, alone: bool = False) -> _Measured:
    """With `alone`, the acting thread has a core for itself."""
    cores = os.sched_getaffinity(0)
    if alone:
        os.environ[_CORE] = str(min(cores))
        os.sched_setaffinity(0, cores - {min(cores)})
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _Bench(precision, pull_period, Path(folder)).measure()
    finally:
        os.environ.pop(_CORE, None)
        os.sched_setaffinity(0, cores)


def measure_refresh() -> list[Row]:
    """Rows of every precision; the requirements are for int8."""
    rows: list[Row] = []
    full_bytes = 0
    for precision in _PRECISIONS:
        bounded = precision == "int8"
        limit = 5 if bounded else None  # ms of stall, and % of time
        often, rarely = _measure(precision, 30), _measure(precision, 300)
        alone = [_measure(precision, 30, alone=True) for _ in range(_REPEATS)]
        full_bytes = full_bytes or often.bytes
        median = statistics.median(often.latencies)
        p99 = float(np.quantile(often.latencies, 0.99))
        name = f"{precision}: "
        rows += [
            Row(name + "step", "us", often.step * 1e6),
            _row(name + "publish to installed, median", "ms", median * 1e3, 150 if bounded else None),
            Row(name + "publish to installed, p99", "ms", p99 * 1e3),
            _row(name + "stall", "ms", often.stall * 1e3, limit, "nothing published", often.quiet_stall * 1e3),
            _row(
                name + "stall, acting thread alone on a core",
                "ms",
                statistics.median(measured.stall for measured in alone) * 1e3,
                1 if bounded else None,
                "nothing published",
                statistics.median(measured.quiet_stall for measured in alone) * 1e3,
            ),
            *_share_rows(name, 30, often, limit),
            *_share_rows(name, 300, rarely, limit),
            _row(
                name + "bytes to each actor per publish",
                "% of fp32",
                100 * often.bytes / full_bytes,
                26 if bounded else None,
            ),
        ]
        if often.parameter_bytes:
            share = 100 * often.parameter_bytes / full_bytes
            rows.append(Row(name + "bytes from learner to quantizer per publish", "% of fp32", share))
    return rows


def _share_rows(name: str, pull_period: int, measured: _Measured, limit: float | None) -> list[Row]:
    """The required figure, and the two that complete it."""
    period = f", pull period {pull_period}"
    return [
        _row(f"{name}acting thread's time on parameters{period}", "%", 100 * measured.acting_share, limit),
        Row(f"{name}refresh thread's time, of the wall's{period}", "%", 100 * measured.refresh_share),
        Row(f"{name}steps/s lost while publishing{period}", "%", 100 * measured.slowdown),
    ]


def _row(name: str, unit: str, ours: float, limit: float | None, peer_name: str = "", peer: float | None = None) -> Row:
    if limit is None:
        return Row(name, unit, ours, peer_name, peer)
    return at_most(name, unit, ours, limit, peer_name, peer)


def main() -> int:
    """Measures, prints and writes results/refresh.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace", "onnxruntime")
    if len(os.sched_getaffinity(0)) < 2:
        raise ConfigError("refresh needs two cores, one of them for the acting thread alone")
    warn_if_busy()
    return report("refresh", measure_refresh())


if __name__ == "__main__":
    run(main)
