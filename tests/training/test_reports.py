"""Reports of roles: which count, and where they go."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headrace.report.run_directory import RunDirectory
from headrace.roles.base import GENERATIONS_PER_START
from headrace.roles.totals import Totals
from headrace.training import reports as module
from headrace.training.reports import Reports

from .conftest import make_session

GENERATION = GENERATIONS_PER_START
"""The lowest of the second start."""


class Desk:
    """Reports of a run that was resumed once, and the objects that receive them."""

    def __init__(self, run: RunDirectory) -> None:
        self.supervisor, self.schedule, self.server, self.program = Mock(), Mock(), Mock(), Mock()
        self.monitor = Mock(environment_steps=700)
        self.program.take_figures.return_value = {}
        self._run = run
        session = make_session(
            server=self.server,
            program=self.program,
            monitor=self.monitor,
            clock=Mock(seconds=2.5),
            totals=Totals(),
            run_id="mine",
            resumptions=1,
            run=run,
        )
        self.reports = Reports(session, self.schedule, self.supervisor)

    def take(self, *messages: dict[str, Any]) -> None:
        self.server.drain.return_value = [json.dumps(message).encode() for message in messages]
        self.reports.collect()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._run.path / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        yield Desk(run)


def report(role: str, generation: int = GENERATION, **figures: Any) -> dict[str, Any]:
    return {"role": role, "index": 0, "generation": generation, "phase": "", "stalled_seconds": 0.0, **figures}


def counted(steps: int, push: float, role: str = "actor", writer: str = "a", **said: Any) -> dict[str, Any]:
    acted = {"steps": steps, "episodes": 0, "seconds": {"push": push}, "returns": []}
    return report(role, **{"run_id": "mine", "writer": writer, "acted": acted, **said})


def measured(version: int, generation: int, *, ended: bool = True) -> dict[str, Any]:
    error = {"version": version, "largest": 0.5} if ended else None
    return report("quantizer", generation, quantized={"error": error, "bytes": 25, "parameter_bytes": 100})


def planned(version: int, generation: int = GENERATION) -> dict[str, Any]:
    return report("planner", generation, planned={"model_version": version})


def test_an_error_is_recorded_once(desk: Desk) -> None:
    desk.take(measured(7, GENERATION), measured(7, GENERATION), measured(8, GENERATION, ended=False))
    desk.take(measured(9, GENERATION + 1))
    assert desk.records() == [
        {
            "kind": "quantization",
            "seconds": 2.5,
            "environment_steps": 700,
            "version": version,
            "largest": 0.5,
            "bytes": 25,
            "parameter_bytes": 100,
        }
        for version in (7, 9)
    ]
    assert desk.supervisor.receive.call_count == 4


def test_a_report_of_an_earlier_quantizer_is_ignored(desk: Desk) -> None:
    """Its version is ahead of the checkpoint that the run resumed from: later versions would not be recorded."""
    desk.take(measured(900, 0), measured(901, GENERATION - 1), measured(7, GENERATION))
    assert [record["version"] for record in desk.records()] == [7]
    assert desk.supervisor.receive.call_count == 1


def test_a_report_of_an_earlier_worker_is_ignored(desk: Desk) -> None:
    """Its totals cover all its work, most of which the checkpoint already includes."""
    desk.take(counted(40, 0.5, "worker", "old", generation=GENERATION - 1))
    desk.program.receive.assert_not_called()
    desk.supervisor.receive.assert_not_called()
    worker = counted(40, 0.5, "worker", "new")
    desk.take(worker)
    desk.monitor.add.assert_called_once_with(0, worker["acted"])
    desk.program.receive.assert_called_once()


def test_the_monitor_gets_increments_and_the_program_totals(desk: Desk) -> None:
    reports = [counted(40, 0.5, "worker"), counted(100, 0.75, "worker")]
    desk.take(*reports)
    assert [call.args[1]["steps"] for call in desk.monitor.add.call_args_list] == [40, 60]
    assert [call.args[1]["seconds"] for call in desk.monitor.add.call_args_list] == [{"push": 0.5}, {"push": 0.25}]
    assert [call.args[0] for call in desk.program.receive.call_args_list] == reports


def test_a_report_older_than_the_last_is_ignored(desk: Desk) -> None:
    desk.take(*(counted(steps, 0.5) for steps in (40, 30, 41)))
    assert [call.args[1]["steps"] for call in desk.monitor.add.call_args_list] == [40, 1]
    assert desk.program.receive.call_count == 2
    assert desk.supervisor.receive.call_count == 3


def test_a_report_of_an_earlier_planner_is_ignored(desk: Desk) -> None:
    desk.take(planned(900, 0), planned(3))
    assert [record["model_version"] for record in desk.records()] == [3]


def test_actors_of_this_run_are_counted_and_scores_go_to_the_schedule(desk: Desk) -> None:
    actor, answer = counted(40, 0.5), {"start": "s", "request": 1}
    stranger = counted(40, 0.5, writer="b", run_id="another")
    desk.take(actor, stranger, report("evaluator", answer=answer), report("evaluator"))
    desk.monitor.add.assert_called_once_with(0, actor["acted"])
    desk.schedule.receive.assert_called_once_with(answer)
    assert desk.supervisor.receive.call_count == 3


@pytest.mark.parametrize(
    ("took", "outages", "period"),
    [(0.001, [3, 3], 0.1), (0.01, [3, 3], 0.2), (0.9, [3, 3], 5.0), (10.0, [3, 3], 0.1), (0.9, [3, 4], 0.1)],
)
def test_a_slow_server_is_polled_less_often_but_not_one_that_was_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, took: float, outages: list[int], period: float
) -> None:
    desk.server.outages.side_effect = outages
    monkeypatch.setattr(module, "monotonic", Mock(side_effect=[100.0, 100.0 + took]))
    desk.take()
    assert desk.reports.period_seconds == pytest.approx(period)


def test_a_heartbeat_is_not_counted(desk: Desk) -> None:
    alive = report("worker", run_id="mine")
    desk.take(alive)
    desk.supervisor.receive.assert_called_once_with(alive)
    desk.monitor.add.assert_not_called()


def test_a_planner_that_reports_often_is_recorded_once_a_second_and_at_the_end(desk: Desk) -> None:
    desk.take(planned(1), planned(2), planned(3))
    assert [record["model_version"] for record in desk.records()] == [1]
    desk.reports.finish()
    desk.reports.finish()
    assert [record["model_version"] for record in desk.records()] == [1, 3]


def test_the_time_of_an_outage_is_known_before_a_report_is_handled(desk: Desk) -> None:
    """An evaluator's answer may pause the clock, from which the outage must be gone by then."""
    calls = Mock()
    desk.server.drain.return_value = [json.dumps(report("evaluator", answer={"request": 1})).encode()]
    calls.attach_mock(desk.schedule.receive, "receive")
    desk.reports.collect(calls.drained)
    assert [call[0] for call in calls.mock_calls] == ["drained", "receive"]
