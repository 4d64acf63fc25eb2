"""What an actor reports."""

import json
import signal
import threading
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.environments import Episode
from headrace.errors import ClosedError, EnvironmentFault
from headrace.roles import reporter
from headrace.roles.actor import ActorSettings
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.messages import Figures
from headrace.roles.remote_actor import ActorRole
from headrace.roles.reporter import ActorReporter
from headrace.servers import RoleServer
from headrace.types import EnvironmentSpec

SPEC = EnvironmentSpec((4,), "float32", 2)
SETTINGS = ActorSettings("CartPole-v1", 3, 2, (0.1, 0.2), DQN(), 50, SPEC, values=True, run_id="mine")
ROLE = ActorRole(1, SETTINGS, POLICY, REPLAY, generation=5)


def refreshed() -> Figures:
    return {"refreshed": {"count": 3, "seconds": {"fetch": 0.5}, "latency_seconds": 0.25}}


class Mailbox(RoleServer):
    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.closed = False

    def put(self, mailbox: str, message: bytes) -> None:
        if self.closed:
            raise ClosedError("gone")
        self.reports.append({"mailbox": mailbox, **json.loads(message)})


def test_reports_contain_totals_and_each_return_once() -> None:
    mailbox, clock = Mailbox(), PhaseClock(("environment", "other"))
    sender = ActorReporter(mailbox, ROLE, SETTINGS, clock, refreshed)
    sender.count(10, [])
    clock.enter("environment")
    while not mailbox.reports or mailbox.reports[-1]["acted"]["steps"] != 10:
        threading.Event().wait(0.01)
    sender.count(5, [Episode(3, 7.0, 12, True)])
    clock.enter("other")
    sender.close()
    reports = mailbox.reports
    assert [reports[-1]["acted"][name] for name in ("steps", "episodes", "seconds")] == [15, 1, clock.seconds]
    assert [episode for report in reports for episode in report["acted"]["returns"]] == [[7.0, 12, 0.2]]
    said = {tuple(report[name] for name in ("mailbox", "index", "generation", "run_id")) for report in reports}
    assert said == {("reports", 1, 5, "mine")}
    assert len({report["writer"] for report in reports}) == 1
    assert all(report["refreshed"] == refreshed()["refreshed"] for report in reports)


def test_returns_go_with_the_exploration_of_their_time() -> None:
    mailbox, clock = Mailbox(), PhaseClock(("environment", "other"))
    sender = ActorReporter(mailbox, ROLE, SETTINGS, clock, refreshed)
    sender.count(5, [Episode(3, 7.0, 12, True)], [0.9, 0.8])
    sender.count(5, [Episode(2, 6.0, 11, True)], [0.02, 0.01])
    sender.close()
    returns = [episode for report in mailbox.reports for episode in report["acted"]["returns"]]
    assert returns == [[7.0, 12, 0.8], [6.0, 11, 0.02]]


def test_without_counts_reports_are_heartbeats() -> None:
    mailbox, clock = Mailbox(), PhaseClock(("environment", "other"))
    clock.restart("environment")
    ActorReporter(mailbox, ROLE, SETTINGS, clock, lambda: None).close()
    heartbeat = mailbox.reports[-1]
    assert (heartbeat["phase"], heartbeat["run_id"], heartbeat["index"]) == ("environment", "mine", 1)
    assert {"stalled_seconds", "generation"} < heartbeat.keys()
    assert not {"writer", "acted"} & heartbeat.keys()


def broken_reporter() -> ActorReporter:
    return ActorReporter(
        Mailbox(), ROLE, SETTINGS, PhaseClock(("environment", "other")), lambda: {"loss": np.float32(1.0)}
    )


def test_an_error_of_the_thread_ends_the_actor() -> None:
    """Otherwise it would go on unseen, and no report would ever show that the run has done its steps."""

    def act() -> None:
        with broken_reporter() as sender:
            for _ in range(1_000):
                sender.count(1, [])
                threading.Event().wait(0.01)

    with pytest.raises(TypeError, match="float32 is not JSON"):
        act()
    with pytest.raises(TypeError, match="float32 is not JSON"), broken_reporter():
        pass  # the actor ends before it counts again


def test_the_actors_own_error_comes_first() -> None:
    with pytest.raises(EnvironmentFault, match="its own"), broken_reporter():
        raise EnvironmentFault("its own")


def test_the_last_counts_are_sent_even_if_the_process_is_asked_to_stop_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As SIGTERM does it in the process of a role; here by another signal, which arrives while close() waits."""

    class Slow(Mailbox):
        def put(self, mailbox: str, message: bytes) -> None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
            threading.Event().wait(0.2)
            super().put(mailbox, message)

    def ask(_number: int, _frame: object) -> None:
        raise ClosedError("asked to stop")

    monkeypatch.setattr(reporter, "_PERIOD_SECONDS", 60.0)  # nothing is sent before close()
    before = signal.signal(signal.SIGALRM, ask)
    try:
        mailbox = Slow()
        sender = ActorReporter(mailbox, ROLE, SETTINGS, PhaseClock(("environment", "other")), refreshed)
        with pytest.raises(ClosedError, match="asked to stop"):
            sender.close()
        assert len(mailbox.reports) == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_reports_are_rare_if_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    looks = threading.Semaphore(0)

    def monotonic() -> float:
        looks.release()
        return now

    monkeypatch.setattr(reporter, "_PERIOD_SECONDS", 0.001)
    monkeypatch.setattr(reporter, "monotonic", monotonic)
    mailbox = Mailbox()
    sender = ActorReporter(mailbox, ROLE, SETTINGS, PhaseClock(("push",)), refreshed)
    for _ in range(20):
        assert looks.acquire(timeout=30)
    assert len(mailbox.reports) == 1
    now = 101.0
    while looks.acquire(blocking=False):  # at the time before
        pass
    for _ in range(20):
        assert looks.acquire(timeout=30)
    assert len(mailbox.reports) == 2
    sender.close()
    assert [report["acted"]["steps"] for report in mailbox.reports] == [0, 0, 0]


def test_an_environment_that_hangs_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, clock = threading.Event(), PhaseClock(("environment", "other"))
    reasons: list[str] = []

    def end(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    monkeypatch.setattr(reporter, "end_process", end)
    clock.enter("environment")
    sender = ActorReporter(Mailbox(), ROLE, SETTINGS, clock, refreshed, hang_seconds=0.2)
    assert ended.wait(30)
    sender.close()
    assert "the environment has not returned for" in reasons[0]


def test_waiting_outside_the_environment_is_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    monkeypatch.setattr(reporter, "end_process", reasons.append)
    monkeypatch.setattr(reporter, "_IDLE_PERIOD_SECONDS", 0.05)
    clock, mailbox = PhaseClock(("environment", "push")), Mailbox()
    clock.enter("push")
    sender = ActorReporter(mailbox, ROLE, SETTINGS, clock, refreshed, hang_seconds=0.05)
    while len(mailbox.reports) < 4:
        threading.Event().wait(0.01)
    sender.close()
    assert reasons == []


def test_a_server_that_is_gone_ends_the_thread_and_nothing_else() -> None:
    mailbox = Mailbox()
    mailbox.closed = True
    ActorReporter(mailbox, ROLE, SETTINGS, PhaseClock(("other",)), refreshed).close()
