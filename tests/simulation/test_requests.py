"""What requests to a server on this machine cost."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from headrace import A3C
from headrace.environments.toy import Corridor
from headrace.errors import ConfigError, LaunchError
from headrace.launch.simulated.link import Link
from headrace.servers import EmbeddedServer
from headrace.simulation import requests
from headrace.simulation.companions import Request, open_companions
from headrace.simulation.requests import measure_requests

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = A3C(hidden=(8,))


def test_requests_cost_processor_time_and_the_link_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "available_cores", lambda: 2)
    measured = measure_requests(CORRIDOR, SMALL, 2.0)
    link = Link.parse(measured.link)
    assert link.latency_seconds >= 0
    assert link.bytes_per_second > 0
    for cost in (measured.request, measured.answer):
        assert cost.seconds > 0
        assert cost.per_byte >= 0
        assert cost.per_row == 0.0


def test_costs_are_means_of_the_requests_in_the_time_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of ten seconds for each size: requests of 3 and 5 ms count in each, those before and after do not."""
    clock = {"now": 100.0, "processor": 7.0}

    def sleep(seconds: float) -> None:
        clock["now"] += seconds
        clock["processor"] += 0.004

    times = [(99, 1, 1), (101, 3e-3, 1e-3), (104, 5e-3, 2e-3), (106, 3e-3, 1e-3), (109, 5e-3, 2e-3), (999, 1, 1)]
    made = [Request(*each) for each in times]

    @contextlib.contextmanager
    def workers(*_: object) -> Iterator[Mock]:
        yield Mock(end=lambda: made)

    monkeypatch.setattr(requests, "open_companions", workers)
    monkeypatch.setattr(requests.time, "sleep", sleep)
    monkeypatch.setattr(requests.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(requests.time, "process_time", lambda: clock["processor"])
    measured = measure_requests(CORRIDOR, SMALL, 10.0)
    assert measured.request.seconds == pytest.approx(1.5e-3)
    assert measured.answer.seconds == pytest.approx(2e-3)
    assert Link.parse(measured.link).latency_seconds == pytest.approx((4e-3 - 1.5e-3 - 2e-3) / 2)


def test_no_request_in_time_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "open_companions", lambda *_: contextlib.nullcontext(Mock(end=list)))
    with pytest.raises(ConfigError, match="seconds must be larger"):
        measure_requests(CORRIDOR, SMALL, 1e-9)


def test_what_an_environment_prints_is_no_answer() -> None:
    server = EmbeddedServer()
    server.publish("policy", b"0")
    try:
        talking = f"{__name__}:Talking"
        with open_companions(1, talking, SMALL, server.endpoint, "policy") as workers:
            workers.end()
    finally:
        server.close()


class Talking(Corridor):
    """Prints at every step."""

    def step(self, action: Any) -> Any:
        print("a step")
        return super().step(action)


def test_a_worker_whose_requests_fail_is_an_error() -> None:
    server = EmbeddedServer()
    with open_companions(1, CORRIDOR, SMALL, server.endpoint, "none") as workers:
        server.close()
        workers.processes[0].wait(60.0)
        with pytest.raises(LaunchError, match="has failed"):
            workers.end()
