"""A server's statistics: rates from two snapshots, worked out by hand, and the view."""

import copy
import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from headrace.report.server_view import ServerView, connections, mailbox_flows, shard_flows, status_line, table_flows


def table(**fields):
    return {
        "size": 1_000,
        "capacity": 50_000,
        "used_bytes": 2_000_000,
        "inserts": 5_000,
        "samples": 40_000,
        "samples_per_insert": 7.96,
        "insert_blocked_seconds": 3.0,
        "sample_blocked_seconds": 1.0,
        "state": "open",
        **fields,
    }


def connection(peer, seconds, requests=0, received=0, sent=0, blocked=False):
    return {
        "peer": peer,
        "seconds": seconds,
        "requests": requests,
        "received_bytes": received,
        "sent_bytes": sent,
        "blocked": blocked,
    }


@pytest.fixture
def before():
    return {
        "instance": 7,
        "uptime_seconds": 100.0,
        "cpu_seconds": 20.0,
        "memory_bytes": 3_000_000,
        "memory_limit_bytes": 8_000_000_000,
        "data": "/data",
        "tables": {"lander/replay": table()},
        "parameters": {"lander/policy": {"version": 41, "bytes": 12_000}},
        "shards": {
            "lander/model/0": {
                "size": 228_132,
                "bytes": 1_825_056,
                "version": 400,
                "accepted": 400,
                "dropped": 0,
                "refused": 0,
                "apply_seconds": 0.1,
                "staleness": [200, 200],
            }
        },
        "mailboxes": {"lander/reports": {"messages": 2, "bytes": 60, "received": 100, "dropped": 0}},
        "claims": ["lander/learner"],
        "connections": [
            connection("tcp 10.0.0.2:5000", 60.0, 600, 6_000_000, 600),
            connection("unix pid 9", 50.0, 10, 100, 1_000),
        ],
    }


@pytest.fixture
def after(before):
    """Two seconds later."""
    later = copy.deepcopy(before)
    later |= {"uptime_seconds": 102.0, "cpu_seconds": 21.5}
    later["tables"]["lander/replay"] |= {
        "inserts": 5_500,
        "samples": 44_000,
        "insert_blocked_seconds": 3.5,
        "state": "paused",
    }
    later["shards"]["lander/model/0"] |= {
        "version": 1_400,
        "accepted": 1_400,
        "dropped": 20,
        "refused": 3,
        "apply_seconds": 0.2846,  # 200 us for each of 1,423
        "staleness": [400, 823, 180, 0, 20],
    }
    later["mailboxes"]["lander/reports"] |= {"messages": 7, "bytes": 3_000, "received": 130, "dropped": 11}
    later["connections"] = [
        connection("tcp 10.0.0.2:5000", 62.0, 700, 7_000_000, 700, blocked=True),
        connection("unix pid 9", 52.0, 12, 120, 81_001_000),
        connection("tcp 10.0.0.2:5001", 0.5, 4, 50, 50),
    ]
    return later


def render(view, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(view)
    return console.file.getvalue()


def test_rates_of_a_table_are_its_differences_over_the_time_between(before, after):
    [flow] = table_flows(before, after)
    assert (flow.name, flow.state, flow.size) == ("lander/replay", "paused", 1_000)
    assert (flow.inserts, flow.samples) == (250.0, 2_000.0)  # 500 and 4,000 in 2 s
    assert (flow.inserts_held, flow.samples_held) == (0.25, 0.0)  # half a second of two
    assert flow.samples_per_insert == 7.96


def test_no_rates_without_an_earlier_snapshot_or_across_a_restart(before, after):
    assert table_flows(None, after)[0][5:7] == (0.0, 0.0)
    after["instance"] = 8
    assert table_flows(before, after)[0][5:7] == (0.0, 0.0)
    assert connections(before, after)[0].sent_bytes == pytest.approx(81_001_000 / 52)  # over its life, then


def test_a_table_created_between_the_snapshots_has_no_rates(before, after):
    after["tables"]["lander/replay"] |= {"inserts": 100, "samples": 90_000}
    assert table_flows(before, after)[0][5:7] == (0.0, 0.0)


def test_shards_show_their_rate_and_staleness(before, after):
    [flow] = shard_flows(before, after)
    assert (flow.name, flow.size, flow.version) == ("lander/model/0", 228_132, 1_400)
    assert flow.updates == 500.0  # 1,000 in 2 s
    assert flow.staleness == (823 + 2 * 180 + 4 * 20) / 1_423
    assert flow.apply_seconds == pytest.approx(200e-6)
    assert (flow.dropped, flow.refused) == (20, 3)
    assert shard_flows(None, after)[0].updates == 0.0
    before["shards"]["lander/model/0"]["accepted"] = 2_000  # it was reopened meanwhile
    assert shard_flows(before, after)[0].updates == 0.0


def test_mailboxes_show_what_arrives_and_what_is_lost(before, after):
    assert mailbox_flows(before, after) == [("lander/reports", 7, 3_000, 15.0, 11)]  # 30 in 2 s
    assert mailbox_flows(None, after)[0].received == 0.0
    before["mailboxes"]["lander/reports"]["received"] = 1_000  # it was dropped and made again meanwhile
    assert mailbox_flows(before, after)[0].received == 0.0


def test_rates_of_connections(before, after):
    found = connections(before, after)
    assert [each.peer for each in found] == ["unix pid 9", "tcp 10.0.0.2:5000", "tcp 10.0.0.2:5001"]  # busiest first
    unix, tcp, new = found
    assert (unix.requests, unix.received_bytes, unix.sent_bytes) == (1.0, 10.0, 40_500_000.0)
    assert (tcp.requests, tcp.received_bytes, tcp.blocked) == (50.0, 500_000.0, True)
    assert (new.requests, new.sent_bytes) == (2.0, 25.0)  # 4 requests in 2 s, though it is younger


def test_connections_of_one_peer_are_distinguished_by_start_time(before, after):
    before["connections"] = [connection("unix pid 9", 50.0, 100), connection("unix pid 9", 10.0, 5)]
    after["connections"] = [connection("unix pid 9", 12.0, 9), connection("unix pid 9", 1.0, 3)]
    assert [(each.seconds, each.requests) for each in connections(before, after)] == [(12.0, 2.0), (1.0, 1.5)]


def test_the_view_shows_every_part(before, after):
    text = render(ServerView("tcp://host:7447", before, after))
    for shown in (
        "tcp://host:7447 · up 1:42",
        "memory 3 MB of 8 GB",
        "cpu 75%",  # 1.5 s of processor in 2 s
        "data /data",
        "1,000 / 50,000",
        "2 MB",
        "paused, inserts held 25%",
        "lander/policy",
        "41",
        "12 kB",
        "228,132",
        "200 µs",
        "20 dropped, 3 refused",
        "lander/reports",
        "11 dropped",
        "40.5 MB",
        "held",
    ):
        assert shown in text, shown


def test_the_view_of_a_server_that_has_just_started():
    empty = {
        "instance": 1,
        "uptime_seconds": 0.0,
        "cpu_seconds": 0.0,
        "memory_bytes": 0,
        "memory_limit_bytes": None,
        "data": "",
        "tables": {},
        "parameters": {},
        "shards": {},
        "mailboxes": {},
        "claims": [],
        "connections": [],
    }
    text = render(ServerView("unix:@name", None, empty))
    for shown in (
        "unix:@name · up 0:00",
        "memory 0 B ",
        "only in memory",
        "no tables",
        "no parameters",
        "no connections",
    ):
        assert shown in text, shown


def test_of_many_connections_the_busiest_are_shown_and_the_rest_summed(before, after):
    after["connections"] = [
        connection(f"tcp 10.0.0.{i}:1", 1.0, received=1_000 * (i + 1), blocked=i < 2) for i in range(15)
    ]
    text = render(ServerView("tcp://host:7447", before, after))
    assert "tcp 10.0.0.14:1" in text
    assert "tcp 10.0.0.2:1" not in text
    assert "and 3 more: 3 kB/s, 2 held" in text  # 1 + 2 + 3 kB in 2 s


@pytest.mark.parametrize("width", [50, 80, 120])
def test_the_view_stays_within_its_width(before, after, width):
    after["tables"]["[red]" + "a" * 80] = table()  # a name is no markup
    lines = render(ServerView("tcp://host:7447", before, after), width).splitlines()
    assert {cell_len(line) for line in lines} == {width}
    assert any("[red]aa" in line for line in lines)


def test_the_status_line(before, after):
    assert status_line(before, after) == (
        "[1:42] 3 connections, 1 table with 1,000 transitions, 250 inserts/s, 2,000 samples/s, "
        "memory 3 MB of 8 GB, cpu 75%"
    )
