"""From the learner's parameters to what actors install."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace._native import Server
from headrace.clock import new_event
from headrace.errors import ClosedError
from headrace.networks import Architecture
from headrace.networks.precision import Precision
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder, PolicyEncoder
from headrace.parameters.snapshot import Snapshot, Stamp
from headrace.roles import heartbeat, quantizer
from headrace.roles.base import RoleContext, Stop
from headrace.roles.handles import PARAMETERS, POLICY
from headrace.roles.messages import REPORTS
from headrace.roles.publisher import parameter_blobs
from headrace.roles.quantizer import QuantizerRole
from headrace.servers import Endpoint, open_server
from headrace.types import EnvironmentSpec, Part

from ..waiting import wait_for

ARCHITECTURE = Architecture.of(EnvironmentSpec((3,), "float32", actions=1), "mlp", ())
WEIGHTS = {"q.weight": np.array([[127.0, -50.0, 3.0]], np.float32), "q.bias": np.array([0.25], np.float32)}
PROBE = np.array([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], np.float32)
OUTPUTS = [77.25, 53.25]  # 127 - 50 + 0.25 and 50 + 3 + 0.25


class Bench:
    """A quantizer in a thread, and the server that it uses."""

    def __init__(self) -> None:
        self.native = Server()
        self.server = open_server(Endpoint(self.native.listen("unix:@"), "run"))
        self.reports: list[dict[str, Any]] = []
        self._stops: list[tuple[Stop, threading.Thread]] = []

    def start(self, precision: Precision = "fp32", bits: int = 32, generation: int = 0) -> threading.Thread:
        role, stop = (
            QuantizerRole(0, ARCHITECTURE, precision, bits, PARAMETERS, POLICY, generation=generation),
            new_event(),
        )

        def run() -> None:
            with RoleContext(self.server.endpoint, stop) as context, contextlib.suppress(ClosedError):
                role.run(context)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._stops.append((stop, thread))
        return thread

    def publish(self, version: int, probe: np.ndarray | None = None) -> None:
        taken = Snapshot(WEIGHTS, probe, Stamp("here", float(version)))
        for name, data in parameter_blobs(PARAMETERS)(taken).items():
            self.server.publish(name, data, version)

    def wait_for(self, found: Callable[[], object]) -> None:
        def look() -> object:
            self.reports += [json.loads(message) for message in self.server.drain(REPORTS)]
            return found()

        wait_for(look)

    def wait_for_reports(self, count: int) -> None:
        reports = len(self.reports)
        self.wait_for(lambda: len(self.reports) > reports + count)

    def policy(self, newer_than: int = 0) -> tuple[int, bytes]:
        """The policy, after its news were published."""
        self.wait_for(lambda: self.server.fetch(POLICY.news, newer_than))
        found = self.server.fetch(POLICY.name, newer_than)
        assert found is not None
        return found

    def stop(self) -> None:
        for stop, thread in self._stops:
            stop.set()
            thread.join(30)
            assert not thread.is_alive()
        self._stops.clear()

    def close(self) -> None:
        self.stop()
        self.server.close()
        self.native.close()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(heartbeat, "_PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(quantizer, "_CHECK_SECONDS", 0.01)
    made = Bench()
    yield made
    made.close()


def outputs(data: bytes, precision: Precision, bits: int) -> list[float]:
    graph = PolicyDecoder(precision, bits).decode(data)
    values: list[float] = Policy(graph, 1).output(PROBE)[:, 0].tolist()
    return values


@pytest.mark.parametrize(
    ("precision", "bits", "tolerance"), [("fp32", 32, 1e-6), ("int8", 32, 1.0), ("fp32", 8, 1.0), ("int8", 4, 20.0)]
)
def test_a_policy_has_the_version_of_its_parameters(
    bench: Bench, precision: Precision, bits: int, tolerance: float
) -> None:
    bench.start(precision, bits)
    bench.publish(7)
    version, data = bench.policy()
    assert version == 7
    assert outputs(data, precision, bits) == pytest.approx(OUTPUTS, abs=tolerance)
    news = bench.server.fetch(POLICY.news)
    assert news is not None
    assert (news[0], Stamp.from_json(news[1])) == (7, ("here", 7.0))
    bench.publish(9)
    assert bench.policy(newer_than=7)[0] == 9


def test_reports_are_heartbeats_with_totals(bench: Bench) -> None:
    bench.start(generation=3)
    bench.wait_for(lambda: len(bench.reports) >= 2)
    idle = bench.reports[-1]
    assert [idle[name] for name in ("role", "index", "generation", "phase")] == ["quantizer", 0, 3, ""]
    assert [idle["quantized"][name] for name in ("versions", "error")] == [0, None]
    bench.publish(4)
    bench.policy()
    bench.wait_for(lambda: bench.reports[-1]["quantized"]["version"] == 4)
    quantized = bench.reports[-1]["quantized"]
    assert quantized["versions"] == 1
    assert quantized["parameter_bytes"] == 4 * 4
    assert quantized["bytes"] == len(bench.policy()[1])
    assert quantized["seconds"] > 0


def test_the_error_is_measured_on_the_learners_observations(bench: Bench) -> None:
    bench.start("fp32", 4)
    bench.publish(1)
    bench.policy()
    bench.publish(2, PROBE)
    bench.wait_for(lambda: bench.reports and bench.reports[-1]["quantized"]["error"])
    error = bench.reports[-1]["quantized"]["error"]
    installed = outputs(bench.policy()[1], "fp32", 4)
    assert installed == pytest.approx([77.25, 47.45], abs=1e-3)  # steps of 11.8 from -50: 127, -50, -2.8
    difference = np.abs(np.array(installed) - OUTPUTS)
    assert error == {
        "version": 2,
        "rows": 2,
        "largest": pytest.approx(difference.max()),
        "mean": pytest.approx(difference.mean()),
        "largest_output": pytest.approx(77.25),
    }


def test_the_error_is_that_of_legal_outputs() -> None:
    parts = (Part("observation", "float32", (1,), 0), Part("action_mask", "int8", (4,), 4))
    spec = EnvironmentSpec((8,), "uint8", 4, parts=parts, masked=True)
    role = QuantizerRole(0, Architecture.of(spec, "mlp", ()), "fp32", 4, PARAMETERS, POLICY)
    column = np.array([[127.0], [-50], [3], [0]], np.float32)  # the rest is the mask's
    weights = {"q.weight": np.pad(column, ((0, 0), (0, 4))), "q.bias": np.zeros(4, np.float32)}
    record = np.frombuffer(np.float32(1).tobytes() + bytes([0, 1, 1, 0]), np.uint8)[None]
    policy = PolicyEncoder(role.architecture, "fp32", 4).encode(weights)
    error = quantizer._Ruler(role).measure(Snapshot(weights, record, Stamp("here", 1.0)), policy, 1)
    installed = Policy(PolicyDecoder("fp32", 4).decode(policy), 1).output(record)[0, 1:3]
    assert error["mean"] == pytest.approx(np.abs(installed - [-50, 3]).mean()) != 0


def test_blobs_that_a_server_lost_are_published_again(bench: Bench) -> None:
    bench.start()
    bench.publish(5)
    version, data = bench.policy()
    for name in (POLICY.news, POLICY.name, PARAMETERS.name):
        bench.native.drop(f"run/{name}")
    bench.publish(5)  # by the learner, which finds that the server was restarted
    assert bench.policy() == (version, data)


def test_an_earlier_start_publishes_nothing_among_the_blobs_of_a_later_one(bench: Bench) -> None:
    thread = bench.start()
    bench.publish(5)
    bench.policy()
    bench.native.drop(f"run/{PARAMETERS.name}")
    bench.wait_for_reports(5)  # or it may be about to publish what belongs to the parameters that it has just seen
    for name in (POLICY.name, POLICY.news):
        bench.native.drop(f"run/{name}")
    bench.wait_for_reports(5)
    assert bench.server.fetch(POLICY.name) is None  # the later start has published no parameters yet
    bench.publish(2)
    thread.join(30)
    assert not thread.is_alive()
    assert bench.server.fetch(POLICY.name) is None


@pytest.mark.parametrize("lost", [POLICY.name, POLICY.news])
def test_missing_news_or_a_missing_policy_is_published_again(bench: Bench, lost: str) -> None:
    """As after a restart of the server between the two."""
    bench.start()
    bench.publish(5)
    published = bench.policy(), bench.server.fetch(POLICY.news)
    kept = POLICY.news if lost == POLICY.name else POLICY.name
    data = bench.server.fetch(kept)
    assert data is not None
    bench.native.drop(f"run/{lost}")  # and what begins like it
    if bench.server.fetch(kept) is None:
        bench.server.publish(kept, data[1], 5)
    bench.wait_for(lambda: bench.server.fetch(lost))
    assert (bench.policy(), bench.server.fetch(POLICY.news)) == published


def test_it_continues_if_the_error_cannot_be_measured(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> dict[str, Any]:
        raise RuntimeError("no session today")

    monkeypatch.setattr(quantizer._Ruler, "measure", fail)
    thread = bench.start("int8")
    bench.publish(1, PROBE)
    bench.wait_for(lambda: "no session today" in capfd.readouterr().err)
    bench.publish(2, PROBE)
    assert bench.policy(newer_than=1)[0] == 2
    assert thread.is_alive()
    assert all(report["quantized"]["error"] is None for report in bench.reports)


def test_a_restarted_quantizer_continues_with_the_next_version(bench: Bench) -> None:
    bench.start()
    bench.publish(5)
    before = bench.policy()
    bench.stop()
    bench.start(generation=1)  # finds its predecessor's policy of that version, and publishes it once more
    bench.wait_for(lambda: bench.reports and bench.reports[-1]["quantized"]["version"] == 5)
    assert bench.policy() == before
    bench.publish(6)
    assert bench.policy(newer_than=5)[0] == 6


def test_it_ends_with_the_server(bench: Bench) -> None:
    thread = bench.start()
    bench.wait_for(lambda: bench.reports)
    bench.native.close()
    thread.join(30)
    assert not thread.is_alive()
