"""What a worker reports while the gate holds it."""

import json
from typing import Any
from unittest.mock import Mock

from headrace.clock import new_event
from headrace.roles.base import GATE, HELD, Role, RoleContext
from headrace.roles.gate import Gate, GateWatch
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import REPORTS


class Waiting(Role):
    kind = "worker"

    def run(self, context: RoleContext) -> None:
        raise AssertionError("no role is started here")


def test_a_worker_that_waits_at_its_start_sends_reports() -> None:
    gates = [Gate("held", 0), Gate("held", 30), Gate("open", 70)]

    def fetch(name: str, newer_than: int) -> tuple[int, bytes]:
        assert name == GATE
        return newer_than + 1, gates.pop(0).to_json()

    server, stop = Mock(fetch=fetch), new_event()
    alive = Heartbeat(Waiting(3, generation=2), server, stop, lambda: {"run_id": "mine"})
    watch = GateWatch(server, 3, stop)
    waited = watch.wait(alive)
    assert waited is not None
    assert waited > 0
    assert watch.steps == 70
    alive.enter("environment")
    sent: dict[str, list[Any]] = {HELD: [], REPORTS: []}
    for call in server.put.call_args_list:
        sent[call.args[0]].append(json.loads(call.args[1]))
    same = {"role": "worker", "index": 3, "generation": 2, "run_id": "mine", "stalled_seconds": 0.0}
    assert sent[REPORTS] == [{**same, "phase": ""}, {**same, "phase": "environment"}]
    assert sent[HELD] == [[3, 1], [3, 2]]
