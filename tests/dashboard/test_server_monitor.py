"""What a dashboard shows of a server: rates worked out by hand, refusals, outages and restarts."""

import json

import pytest

from headrace._native import Client, Server, Signature
from headrace.dashboard.server_monitor import COLUMNS, ServerMonitor
from headrace.errors import ClosedError, ConfigError, ServerError, StorageError

RATES = COLUMNS[1:]


def snapshot(seconds, instance=7, *, inserts=0, samples=0, received=0, versions=1, **fields):
    """The statistics of a server with one run, at this time since its start."""
    table = {
        "size": 50, "capacity": 100, "used_bytes": 500, "inserts": inserts, "samples": samples,
        "samples_per_insert": 2.0, "insert_blocked_seconds": 0.25 * seconds, "sample_blocked_seconds": 0.0,
        "state": "open",
    }  # fmt: skip
    peer = {
        "peer": "unix pid 1", "seconds": seconds, "requests": 1, "received_bytes": received, "sent_bytes": 0,
        "blocked": True,
    }  # fmt: skip
    return {
        "instance": instance, "uptime_seconds": seconds, "cpu_seconds": 0.5 * seconds, "memory_bytes": 1_000,
        "memory_limit_bytes": None, "data": "", "tables": {"a/replay": table},
        "parameters": {"a/policy": {"version": versions, "bytes": 80}, "alone": {"version": 1, "bytes": 1}},
        "shards": {}, "mailboxes": {}, "claim_count": 3, "claims": ["a/learner", "a/actor/0", "a/actor/1"],
        "connections": [peer],
    } | fields  # fmt: skip


class Script:
    """Stands in for Client: answers with what a test lists, one after the other; an error is raised."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.made = 0

    def __call__(self, *_arguments, **_options):
        self.made += 1
        return self

    def stats(self):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        pass


@pytest.fixture
def monitor(monkeypatch):
    """Makes a monitor of a scripted server."""

    def make(*answers):
        script = Script(*answers)
        monkeypatch.setattr("headrace.dashboard.server_monitor.Client", script)
        return ServerMonitor("unix:@fake", None), script

    return make


def test_rates_are_differences_of_two_snapshots(monitor):
    watched, _ = monitor(snapshot(10.0), snapshot(12.0, inserts=500, samples=4_000, received=64, versions=7))
    watched.look()
    total, first = watched.update(None)
    assert (total, first["reset"], first["state"]["totals"]["inserts"]) == (0, True, 0.0)
    watched.look()
    total, message = watched.update(total)
    assert (total, message["reset"]) == (1, False)
    assert {name: message["series"][name] for name in RATES} == {
        "inserts": [250.0], "samples": [2_000.0], "updates": [0.0], "received_bytes": [32.0], "sent_bytes": [0.0],
        "memory_bytes": [1_000.0], "cpu": [0.5], "connections": [1.0],
    }  # fmt: skip
    state = message["state"]
    assert state["connection"]["status"] == "connected"
    assert state["tables"][0]["inserts_held"] == 0.25
    assert [each["versions"] for each in state["parameters"]] == [3.0, 0.0]  # 6 versions in 2 s
    assert state["runs"] == [
        {"name": "a", "learner": True, "actors": 2, "workers": 0, "transitions": 50, "bytes": 580},
    ]
    assert state["totals"]["blocked"] == 1


def test_a_server_that_does_not_answer_may_come(monitor):
    watched, script = monitor(StorageError("no server answers"), snapshot(1.0), snapshot(2.0))
    watched.look()
    state = watched.update(None)[1]["state"]
    assert (state["connection"]["status"], state["connection"]["error"]) == ("unreachable", "no server answers")
    assert "totals" not in state
    watched.look()
    assert watched.update(None)[1]["state"]["connection"]["status"] == "connected"
    assert script.made == 2


def test_a_restart_is_counted_and_leaves_a_gap(monitor):
    watched, _ = monitor(
        snapshot(9.0), snapshot(10.0, inserts=100), ClosedError("gone"), snapshot(1.0, 8), snapshot(2.0, 8, inserts=5)
    )
    for _ in range(3):
        watched.look()
    assert watched.update(None)[1]["state"]["connection"]["status"] == "unreachable"
    watched.look()
    message = watched.update(None)[1]
    assert message["state"]["connection"]["restarts"] == 1
    assert message["state"]["tables"][0]["inserts"] == 0.0
    watched.look()
    series = watched.update(None)[1]["series"]
    assert series["inserts"] == [100.0, None, 5.0]
    assert series["seconds"] == sorted(series["seconds"])


def test_a_refusal_is_an_error_at_the_start_and_shown_later(monitor):
    watched, _ = monitor(ServerError("the token is wrong"))
    with pytest.raises(ServerError, match="the token is wrong"):
        watched.start()
    watched, _ = monitor(snapshot(1.0), ServerError("the token is wrong"))
    watched.look()
    watched.look()
    connection = watched.update(None)[1]["state"]["connection"]
    assert (connection["status"], connection["error"]) == ("refused", "the token is wrong")


def test_statistics_of_another_kind_of_server_are_refused(monitor):
    watched, _ = monitor({"tables": 3})
    with pytest.raises(ServerError, match="not those of a Headrace server"):
        watched.start()


def test_of_many_things_a_hundred_are_shown(monitor):
    peers = [
        {"peer": f"tcp {i}", "seconds": 1.0, "requests": 0, "received_bytes": i, "sent_bytes": 0, "blocked": False}
        for i in range(150)
    ]
    blobs = {f"a/{i:03}": {"version": 1, "bytes": 1} for i in range(150)}
    watched, _ = monitor(snapshot(1.0, connections=peers, parameters=blobs))
    watched.look()
    state = watched.update(None)[1]["state"]
    assert (len(state["connections"]), len(state["parameters"])) == (100, 100)
    assert state["connections"][0]["peer"] == "tcp 149"  # the busiest
    assert (state["totals"]["connections"], state["totals"]["parameters"]) == (150, 150)


def test_an_address_that_can_not_be_is_an_error():
    with pytest.raises(ConfigError, match="the port is missing"):
        ServerMonitor("tcp://127.0.0.1", None).start()


def test_a_server_is_watched_and_only_read():
    server = Server(token=b"a long secret 0123")
    address = server.listen("tcp://127.0.0.1:0")
    client = Client(address, token=b"a long secret 0123")
    client.open_table("lander/replay", Signature((4,), "float32"), fresh=True, capacity=1_000)
    client.put("lander/reports", b"hello")
    client.claim("lander/learner", 7)
    monitor = ServerMonitor(address, b"a long secret 0123", period_seconds=0.01)
    try:
        monitor.start()
        state = monitor.update(None)[1]["state"]
        json.dumps(state, allow_nan=False)
        assert [each["name"] for each in state["tables"]] == ["lander/replay"]
        assert state["mailboxes"][0] | {"received": 0.0} == {
            "name": "lander/reports", "messages": 1, "bytes": 5, "received": 0.0, "dropped": 0,
        }  # fmt: skip
        assert (state["claims"], state["totals"]["claims"]) == (["lander/learner"], 1)
        assert client.drain("lander/reports") == [b"hello"]
    finally:
        monitor.close()
        client.close()
        server.close()
