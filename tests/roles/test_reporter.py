"""What an actor reports."""

import json
import threading

import pytest

from headrace.environments import Episode
from headrace.errors import ClosedError
from headrace.roles import reporter
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.clock import PhaseClock
from headrace.roles.reporter import ActorReporter
from headrace.servers import RoleServer

SETTINGS = ActorSettings("CartPole-v1", 3, 1, 2, (0.1, 0.2), 3, 0.99, 50, False, True, 400)
ROLE = Role("actor", 1, SETTINGS.to_json(), 5)


class Mailbox(RoleServer):
    def __init__(self) -> None:
        self.reports: list[dict[str, object]] = []
        self.closed = False

    def put(self, mailbox: str, message: bytes) -> None:
        if self.closed:
            raise ClosedError("gone")
        self.reports.append({"mailbox": mailbox, **json.loads(message)})


def test_each_report_holds_what_is_new() -> None:
    mailbox, clock = Mailbox(), PhaseClock(("environment", "other"))
    sender = ActorReporter(mailbox, ROLE, SETTINGS, clock)
    sender.count(10, [])
    clock.enter("environment")
    while sum(report["steps"] for report in mailbox.reports) < 10:  # type: ignore[misc]
        threading.Event().wait(0.01)
    sender.count(5, [Episode(3, 7.0, 12, True)])
    clock.enter("other")
    sender.close()
    reports = mailbox.reports
    assert sum(report["steps"] for report in reports) == 15  # type: ignore[misc]
    assert [episode for report in reports for episode in report["episodes"]] == [[7.0, 12, 0.2]]  # type: ignore[attr-defined]
    spent = sum(report["seconds"]["environment"] for report in reports)  # type: ignore[index]
    assert spent == pytest.approx(clock.seconds["environment"])
    assert {(report["mailbox"], report["index"], report["generation"]) for report in reports} == {("reports", 1, 5)}


def test_an_environment_that_hangs_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, clock = threading.Event(), PhaseClock(("environment", "other"))
    reasons: list[str] = []

    def end(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    monkeypatch.setattr(reporter, "end_process", end)
    clock.enter("environment")
    sender = ActorReporter(Mailbox(), ROLE, SETTINGS, clock, hang_seconds=0.2)
    assert ended.wait(30)
    sender.close()
    assert "the environment has not returned for" in reasons[0]


def test_waiting_elsewhere_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    monkeypatch.setattr(reporter, "end_process", reasons.append)
    clock, mailbox = PhaseClock(("environment", "push")), Mailbox()
    clock.enter("push")
    sender = ActorReporter(mailbox, ROLE, SETTINGS, clock, hang_seconds=0.05)
    while len(mailbox.reports) < 4:
        threading.Event().wait(0.01)
    sender.close()
    assert reasons == []


def test_a_server_that_is_gone_ends_the_thread_and_nothing_else() -> None:
    mailbox = Mailbox()
    mailbox.closed = True
    ActorReporter(mailbox, ROLE, SETTINGS, PhaseClock(("other",))).close()
