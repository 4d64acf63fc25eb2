"""Metrics of servers and runs, read by Prometheus' own parser."""

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace._native import Client, Server, Signature
from headrace.errors import ConfigError
from headrace.report.metrics import RunMetrics, serve_metrics, server_families

DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/headrace.json"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
STATS = {
    "uptime_seconds": 60.0, "cpu_seconds": 1.5, "memory_bytes": 1_000, "memory_limit_bytes": None, "claim_count": 2,
    "parameters": {"run/policy": {"version": 7, "bytes": 80}},
    "connections": [{"blocked": True}, {"blocked": False}],
    "tables": {
        "run/replay": {
            "size": 50, "capacity": 100, "used_bytes": 500, "capacity_bytes": 900, "inserts": 60, "samples": 960,
            "insert_blocked_seconds": 0.5, "sample_blocked_seconds": 0.25, "lost": 0, "state": "paused",
        },
    },
    "shards": {
        "run/model": {
            "version": 9, "bytes": 64, "accepted": 8, "dropped": 1, "refused": 2, "apply_seconds": 0.125, "lost": 0,
        }
    },
    "mailboxes": {"run/reports": {"messages": 3, "bytes": 90, "received": 40, "dropped": 5}},
}  # fmt: skip


class Collected:
    """A collector of fixed metrics."""

    def __init__(self, families):
        self._families = families

    def collect(self):
        return self._families


def parse(text):
    """The families of a text, and its samples by name and labels."""
    families = list(text_string_to_metric_families(text))
    samples = {(each.name, *sorted(each.labels.values())): each.value for family in families for each in family.samples}
    return families, samples


def exposed(families):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected(families))
    return parse(generate_latest(registry).decode())


@pytest.fixture
def run(progress):
    made = RunMetrics(environment='A "b"\\\n', algorithm="dqn", topology="apex")
    made.append(progress().to_record())
    for role in ("actor 0", "actor 3", "evaluator 0"):
        made.append({"kind": "exit", "role": role, "reason": "x", "seconds": 1.0})
    return made


def test_the_metrics_of_a_server():
    _, samples = exposed(server_families(STATS))
    assert samples["headrace_server_cpu_seconds_total",] == 1.5
    assert ("headrace_server_memory_limit_bytes",) not in samples
    assert samples["headrace_server_connections",] == 2
    assert samples["headrace_server_blocked_connections",] == 1
    assert samples["headrace_table_sampled_transitions_total", "run/replay"] == 960
    assert samples["headrace_table_state", "paused", "run/replay"] == 1
    assert samples["headrace_table_state", "open", "run/replay"] == 0
    assert samples["headrace_parameters_version", "run/policy"] == 7
    assert samples["headrace_shard_refused_gradients_total", "run/model"] == 2
    assert samples["headrace_mailbox_messages", "run/reports"] == 3
    assert samples["headrace_mailbox_dropped_messages_total", "run/reports"] == 5


def test_the_metrics_of_a_run(run):
    _, samples = exposed(run.families())
    assert samples["headrace_run_info", 'A "b"\\\n', "apex", "dqn"] == 1
    assert samples["headrace_run_environment_steps_total",] == 123_000
    assert samples["headrace_run_evaluation_return",] == 75.0
    assert samples["headrace_run_time_ratio", "actor", "environment"] == 0.6
    assert samples["headrace_run_process_deaths_total", "actor"] == 2
    assert samples["headrace_run_process_deaths_total", "evaluator"] == 1
    assert samples["headrace_run_bottleneck", "learner"] == 1
    assert samples["headrace_run_bottleneck", "actors"] == 0


def test_a_value_that_is_not_known_is_left_out(progress):
    run = RunMetrics(environment="A", algorithm="dqn", topology="apex")
    assert ("headrace_run_environment_steps_total",) not in exposed(run.families())[1]
    run.append(progress(loss=None, bottleneck=None).to_record())
    _, samples = exposed(run.families())
    assert ("headrace_run_loss",) not in samples
    assert samples["headrace_run_episodes_total",] == 450


def test_names_follow_the_rules(run):
    families, samples = exposed([*server_families(STATS), *run.families()])
    assert all(family.name.startswith("headrace_") and family.documentation for family in families)
    counters = {family.name for family in families if family.type == "counter"}
    assert len(counters) > 10
    assert {name for name, *_ in samples if name.endswith("_total")} == {f"{name}_total" for name in counters}
    assert not [name for name, *_ in samples if re.search("milli|micro|kilo|percent|minutes", name)]


def test_the_dashboard_names_only_metrics_that_exist(run):
    _, samples = exposed([*server_families(STATS | {"memory_limit_bytes": 1}), *run.families()])
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 20
    for query in queries:
        names = re.findall(r"headrace_\w+", query)
        assert names
        assert set(names) <= {name for name, *_ in samples}, query
    labels = {
        label
        for panel in panels
        for target in panel["targets"]
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"])
    }
    assert labels <= {"instance", "phase", "role", "table", "shard", "parameters", "headrace_run_bottleneck"}


def test_a_server_is_read_over_http():
    server = Server()
    client = Client(server.listen("tcp://127.0.0.1:0"))
    client.open_table("run/replay", Signature((4,), "float32"), fresh=True, capacity=1_000)
    try:
        with serve_metrics("0", lambda: server_families(server.stats())) as address:
            assert address.startswith("http://127.0.0.1:")
            request = urllib.request.Request(address, headers={"Accept": OPEN_METRICS})
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                _, samples = parse(answer.read().decode())
        assert samples["headrace_table_capacity_transitions", "run/replay"] == 1_000
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(address, timeout=30)
    finally:
        client.close()
        server.close()


@pytest.mark.parametrize("listen", ["", "x", "127.0.0.1", "127.0.0.1:70000", "::1:80", ":-1", "127.0.0.1:٣"])
def test_an_address_that_is_none_is_refused(listen):
    with pytest.raises(ConfigError, match=r"metrics_listen is .*HOST:PORT"), serve_metrics(listen, list):
        pass


def test_an_address_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"{listen}.*in use"), serve_metrics(listen, list):
            pass


def test_a_name_that_no_host_can_have_is_refused():
    said = r"metrics_listen is '10\.0\.0\.\.1:9101', which can't be used"
    with pytest.raises(ConfigError, match=said), serve_metrics("10.0.0..1:9101", list):
        pass
