"""What requests to a server on this machine cost."""

import pytest

from headrace import A3C
from headrace.errors import LaunchError
from headrace.launch.simulated.link import Link
from headrace.servers import EmbeddedServer
from headrace.simulation import requests
from headrace.simulation.companions import open_companions
from headrace.simulation.requests import measure_requests

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = A3C(hidden=(8,))


def test_requests_cost_processor_time_and_the_link_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "available_cores", lambda: 2)
    measured = measure_requests(CORRIDOR, SMALL, 0.1)
    link = Link.parse(measured.link)
    assert link.latency_seconds >= 0
    assert link.bytes_per_second > 0
    for cost in (measured.request, measured.answer):
        assert cost.seconds > 0
        assert cost.per_byte >= 0
        assert cost.per_row == 0.0


def test_a_worker_whose_requests_fail_is_an_error() -> None:
    server = EmbeddedServer()
    with open_companions(1, CORRIDOR, SMALL, server.endpoint, "none") as workers:
        server.close()
        with pytest.raises(LaunchError, match="has failed"):
            workers.end()
