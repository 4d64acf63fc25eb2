"""An actor whose server holds its chunks back, and one that is restarted."""

import contextlib
import json
import threading
from typing import Any

import numpy as np
import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.writers import table_signature
from headrace.clock import new_event
from headrace.errors import ClosedError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.parameters.snapshot import Stamp
from headrace.roles import remote_actor
from headrace.roles.actor import ActorSettings
from headrace.roles.base import RoleContext
from headrace.roles.clock import ACTOR_PHASES
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.messages import REPORTS
from headrace.roles.remote_actor import ActorRole
from headrace.servers.embedded import EmbeddedServer
from headrace.types import EnvironmentSpec

from ..waiting import wait_for

SPEC = EnvironmentSpec((8,), "float32", actions=2)
SETTINGS = ActorSettings(
    "headrace.environments.toy:Corridor", 3, 0, (0.5,), DQN(n_step=1), chunk_steps=5, values=False, spec=SPEC
)


def first_policy() -> dict[str, bytes]:
    """The blobs of a policy of zeros, by name."""
    weights = {"q.weight": np.zeros((2, 8), np.float32), "q.bias": np.zeros(2, np.float32)}
    return POLICY.blobs(PolicyGraph(Architecture.of(SPEC, "mlp", ())).serialize(weights), Stamp.now())


def test_time_in_which_the_server_holds_chunks_is_blocked_and_none_is_lost_at_the_end() -> None:
    stop = new_event()
    with contextlib.closing(EmbeddedServer()) as server:
        table = server.add_table(REPLAY.name, table_signature(SPEC), fresh=True, capacity=100_000)
        table.set_paused(True)
        for name, data in first_policy().items():
            server.publish(name, data)

        def act() -> None:
            with RoleContext(server.endpoint, stop) as context:
                ActorRole(0, SETTINGS, POLICY, REPLAY).run(context)

        actor = threading.Thread(target=act, daemon=True)
        actor.start()
        report = _next_report(server, lambda report: report["phase"] == "blocked")
        steps = report["acted"]["steps"]
        stop.set()
        table.set_paused(False)
        actor.join(30)
        assert not actor.is_alive()
        last = _next_report(server, lambda report: report["phase"] == "other")["acted"]
        assert set(last["seconds"]) == set(ACTOR_PHASES)
        assert last["seconds"]["blocked"] > 0
        assert last["steps"] == steps + 1  # the step whose chunk waited
        assert last["steps"] - table.stats()["inserts"] < SETTINGS.chunk_steps  # those of the open chunk


def test_a_restarted_actor_has_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ActorSettings] = []

    def make(settings: ActorSettings, *arguments: Any) -> None:
        made.append(settings)
        raise ClosedError("made")

    monkeypatch.setattr(remote_actor, "Actor", make)
    with contextlib.closing(EmbeddedServer()) as server:
        for name, data in first_policy().items():
            server.publish(name, data)
        for generation in (0, 1):
            with RoleContext(server.endpoint, new_event()) as context:
                ActorRole(0, SETTINGS, POLICY, REPLAY, generation=generation).run(context)
    assert [settings.seed for settings in made] == [3, 3 + 1_000_003]


def _next_report(server: EmbeddedServer, found: Any) -> dict[str, Any]:
    return wait_for(lambda: next(filter(found, map(json.loads, server.drain(REPORTS))), {}))
