"""What a program of workers makes of their reports, and the gate at which they wait while the run is evaluated."""

import json
import threading
import time
from typing import Any
from unittest.mock import Mock

import pytest

from headrace import Hogwild, ParameterServer
from headrace.clock import new_event
from headrace.errors import DivergenceError, ReplayError
from headrace.roles import gate as gates
from headrace.roles.base import GATE, HELD
from headrace.roles.gate import Gate, GateWatch, Held
from headrace.servers import EmbeddedServer, connect_role
from headrace.topologies.workers import program as programs
from headrace.topologies.workers.program import WorkersProgram

from .conftest import PLAIN, context_of


def report(program: WorkersProgram, index: int, writer: str, **totals: Any) -> None:
    staleness = dict.fromkeys(("0", "1", "2", "3", "4-7", "8-15", "16-31", "32+"), 0) | totals.pop("staleness", {})
    learning = {
        "updates": 0,
        "version": 0,
        "staleness": staleness,
        "staleness_sum": 0,
        "accepted": 0,
        "dropped": 0,
        "refused": 0,
        "lock_wait_seconds": 0.0,
        "pull_seconds": 0.0,
        "apply_seconds": 0.0,
        "samples": 0,
        "inserts": 0,
        "seconds": dict.fromkeys(("wait", "transfer", "train", "priorities", "publish", "other"), 0.0),
    }
    acted = {"steps": totals.pop("steps", 0)}
    learned = {"loss": totals.pop("loss", None), "replay": totals.pop("replay", {})}
    learned |= {"diverged": totals.pop("diverged", ""), "totals": {**learning, **totals}}
    said: Any = {"index": index, "writer": writer, "acted": acted, "learned": learned}
    program.receive(said)


def test_reports_of_dead_workers_still_count(server: EmbeddedServer) -> None:
    config = Hogwild(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    assert program.learner.mean_staleness is None
    report(program, 0, "a", updates=5, version=5, staleness={"0": 5}, samples=80, inserts=20, loss=2.0)
    report(program, 1, "b", updates=3, version=8, staleness={"1": 2, "4-7": 1}, staleness_sum=7, loss=4.0, steps=30)
    report(program, 0, "a", updates=9, version=12, staleness={"0": 9}, samples=160, inserts=40, dropped=1, loss=3.0)
    replay = {"size": 10, "capacity": 50, "used_bytes": 100}
    report(program, 0, "c", updates=1, version=13, staleness={"0": 1}, samples=16, inserts=4, loss=3.0, replay=replay)
    figures = program.figures()
    assert figures is not None
    assert (figures["updates"], figures["dropped"]) == (13, 1)  # 9 of a, 3 of b, 1 of c, which took the place of a
    assert figures["staleness"] == {"0": 10, "1": 2, "2": 0, "3": 0, "4-7": 1, "8-15": 0, "16-31": 0, "32+": 0}
    assert program.learner.steps == 13
    assert program.learner.staleness == 7 / 13
    assert program.learner.loss == 3.5
    stats = program.table.stats()
    assert (stats["samples_per_insert"], stats["size"], stats["capacity"]) == (176 / 44, 10, 50)
    resumed = WorkersProgram(config, context_of(server, PLAIN, config), 1)
    resumed.restore(json.loads(json.dumps(program.state())))
    resumed.learner.resume(program.learner.steps, program.learner.mean_staleness)
    assert resumed.learner.staleness == 7 / 13  # before any worker reports
    assert gate(server)[1] == Gate("open", 30)  # before any worker looks: none explores as at the beginning
    report(resumed, 0, "d", updates=2, staleness={"0": 2})
    again = resumed.figures()
    assert again is not None
    assert (again["updates"], again["staleness"]["0"]) == (15, 12)


def test_divergence_of_a_worker_ends_the_run(server: EmbeddedServer) -> None:
    config = ParameterServer(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    with pytest.raises(DivergenceError, match=r"^the loss is nan$"):
        report(program, 1, "b", diverged="the loss is nan")


def gate(server: EmbeddedServer) -> tuple[int, Gate]:
    found = server.fetch(GATE)
    assert found is not None
    return found[0], Gate.from_json(found[1])


def test_the_gate_pauses_live_workers_and_publishes_total_steps(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_HOLD_SECONDS", 60.0)  # it waits for the worker even on a busy machine
    config = Hogwild(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    assert gate(server) == (1, Gate("open", 0))
    report(program, 1, "b", steps=300)
    role = connect_role(server.endpoint)
    role.put(HELD, Held(1, 1).to_json())  # of an earlier hold
    holding = threading.Thread(target=program.table.set_paused, args=(True,))
    holding.start()
    while gate(server) != (2, Gate("held", 300)):
        time.sleep(0.001)
    time.sleep(0.05)  # of work
    assert holding.is_alive()  # until worker 1 says that it stands still; worker 0 is not there yet
    role.put(HELD, Held(1, 2).to_json())
    holding.join(30)
    assert not holding.is_alive()
    assert late_turns(program) == 0
    assert program.table.worked_on > 0.0
    program.table.set_paused(False)
    assert program.table.worked_on == 0.0
    assert gate(server) == (3, Gate("open", 300))
    role.put(HELD, Held(1, 4).to_json())
    program.table.close()
    assert gate(server) == (4, Gate("closed", 300))
    role.put(HELD, Held(0, 9).to_json())
    later = WorkersProgram(config, context_of(server, PLAIN, config), 1)
    assert gate(server) == (5, Gate("open", 0))  # a version that no worker has seen
    assert server.drain(HELD) == []  # it does not take a confirmation for its own
    with pytest.raises(ReplayError, match="the workers have the experience"):
        later.table.save("/tmp/nowhere")


def test_the_gate_has_the_steps_of_all_workers_about_once_a_second(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a worker that starts again explores as the others do."""
    now = [100.0]
    monkeypatch.setattr(programs, "monotonic", lambda: now[0])
    config = Hogwild(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    report(program, 0, "a", steps=300)
    program.step(0.0)
    assert gate(server)[1] == Gate("open", 300)
    report(program, 1, "b", steps=200)
    program.step(0.0)
    assert gate(server)[1] == Gate("open", 300)
    now[0] += programs._NEWS_SECONDS
    program.step(0.0)
    assert gate(server)[1] == Gate("open", 500)


def test_a_turn_longer_than_the_maximum_wait_is_counted(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_HOLD_SECONDS", 0.01)
    config = Hogwild(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    report(program, 1, "b")
    program.table.set_paused(True)
    assert late_turns(program) == 1
    report(program, 1, "b")
    program.table.set_paused(True)
    assert late_turns(program) == 2
    program.table.set_paused(True)  # it has not reported since, and may be dead
    assert late_turns(program) == 2


def test_a_worker_that_was_silent_for_long_is_awaited(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [0.0]
    monkeypatch.setattr(gates, "_HOLD_SECONDS", 0.01)
    monkeypatch.setattr(gates, "monotonic", lambda: time.monotonic() + passed[0])
    config = Hogwild(workers=2)
    program = WorkersProgram(config, context_of(server, PLAIN, config), 0)
    report(program, 1, "b")
    passed[0] = 10.0  # its environment was slow, or its messages were delayed
    program.table.set_paused(True)
    assert late_turns(program) == 1


def test_updates_are_counted_over_all_starts_though_some_are_lost(server: EmbeddedServer) -> None:
    config = ParameterServer(workers=1)
    context = context_of(server, PLAIN, config)
    handles = context.vectors.handles if context.vectors else ()
    vectors = Mock(wraps=context.vectors, handles=handles, updates_lost=3, version=100)
    program = WorkersProgram(config, context._replace(vectors=vectors), 0)
    program.step(0.0)
    assert (program.figures() or {})["updates_lost"] == 3
    later = WorkersProgram(config, context._replace(vectors=vectors), 1)
    vectors.version = 97  # of the checkpoint's parameters, without those that are lost
    later.restore(json.loads(json.dumps(program.state())))
    later.learner.steps = 100
    vectors.version, vectors.updates_lost = 98, 2
    later.step(0.0)
    assert later.learner.steps == 101
    assert (later.figures() or {})["updates_lost"] == 5


def late_turns(program: WorkersProgram) -> int:
    figures = program.figures()
    assert figures is not None
    return int(figures["late_turns"])


def test_a_worker_waits_at_the_gate_and_ends_when_it_closes(server: EmbeddedServer) -> None:
    role, stop = connect_role(server.endpoint), new_event()
    watch = GateWatch(role, 3, stop)
    server.publish(GATE, Gate("open", 40).to_json())
    assert watch.wait() == 0
    assert watch.steps == 40
    server.publish(GATE, Gate("held", 50).to_json())
    waits: list[float | None] = []
    watch = GateWatch(role, 3, stop)
    waiting = threading.Thread(target=lambda: waits.append(watch.wait()))
    waiting.start()
    while not (words := server.drain(HELD)):
        time.sleep(0.001)
    assert [Held.from_json(word) for word in words] == [Held(3, 2)]
    assert waiting.is_alive()
    server.publish(GATE, Gate("open", 60).to_json())
    waiting.join(30)
    assert waits[0] is not None
    assert waits[0] > 0
    assert watch.steps == 60
    watch.confirm_end()
    server.publish(GATE, Gate("closed", 70).to_json())
    while watch.wait() is not None:  # it does not look in every turn
        time.sleep(0.001)
    assert server.drain(HELD) == []  # its last report comes first
    watch.confirm_end()
    assert [Held.from_json(word) for word in server.drain(HELD)] == [Held(3, 4)]
