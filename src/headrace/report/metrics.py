"""Metrics of servers and runs in the OpenMetrics format, which Prometheus reads over HTTP. Needs prometheus-client."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, StateSetMetricFamily

from headrace.errors import ConfigError

__all__ = ["RunMetrics", "Source", "serve_metrics", "server_families"]

Family = Any
"""A metric's name, type, help and samples."""
Source = Callable[[], Sequence[Family]]
"""Returns the current metrics; called in threads of the HTTP server, one at a time."""


class _Metric(NamedTuple):
    """How a number becomes a metric: its key in the statistics, its name without the prefix, and its help."""

    key: str
    name: str
    help: str
    counter: bool = False


_SERVER = (
    _Metric("uptime_seconds", "server_uptime_seconds", "Time since the server's start."),
    _Metric("cpu_seconds", "server_cpu_seconds", "Processor time of the server's process.", True),
    _Metric("memory_bytes", "server_memory_bytes", "Memory of tables, parameters, shards and buffers."),
    _Metric("memory_limit_bytes", "server_memory_limit_bytes", "Limit of that memory."),
    _Metric("claim_count", "server_claims", "Names that connections hold, such as actors' slots."),
)
_TABLE = (
    _Metric("size", "table_transitions", "Transitions stored."),
    _Metric("capacity", "table_capacity_transitions", "Transitions that the table can store."),
    _Metric("used_bytes", "table_used_bytes", "Bytes of the chunks stored."),
    _Metric("capacity_bytes", "table_capacity_bytes", "Bytes that the table can store."),
    _Metric("inserts", "table_inserted_transitions", "Transitions inserted.", True),
    _Metric("samples", "table_sampled_transitions", "Transitions sampled.", True),
    _Metric(
        "insert_blocked_seconds", "table_insert_blocked_seconds", "Time in which the limiter blocked inserts.", True
    ),
    _Metric(
        "sample_blocked_seconds", "table_sample_blocked_seconds", "Time in which the limiter blocked samples.", True
    ),
    _Metric("lost", "table_lost_transitions", "Transitions that the server lost when it was killed.", True),
)
_PARAMETERS = (
    _Metric("version", "parameters_version", "Version of the newest parameters."),
    _Metric("bytes", "parameters_bytes", "Size of the newest parameters."),
)
_SHARD = (
    _Metric("version", "shard_version", "Number of updates of the shard."),
    _Metric("bytes", "shard_bytes", "Size of the shard's parameters and optimizer state."),
    _Metric("accepted", "shard_applied_gradients", "Gradients applied.", True),
    _Metric("dropped", "shard_dropped_gradients", "Gradients dropped for their staleness.", True),
    _Metric("refused", "shard_refused_gradients", "Gradients refused because they are not finite.", True),
    _Metric("apply_seconds", "shard_apply_seconds", "Time spent applying gradients.", True),
    _Metric("lost", "shard_lost_updates", "Updates that the server lost when it was killed.", True),
)
_MAILBOX = (
    _Metric("messages", "mailbox_messages", "Messages that no one has taken yet."),
    _Metric("bytes", "mailbox_bytes", "Size of these messages."),
    _Metric("received", "mailbox_received_messages", "Messages received.", True),
    _Metric(
        "dropped", "mailbox_dropped_messages", "Messages dropped because the mailbox or the memory was full.", True
    ),
)
_GROUPS = (
    ("tables", "table", _TABLE),
    ("parameters", "parameters", _PARAMETERS),
    ("shards", "shard", _SHARD),
    ("mailboxes", "mailbox", _MAILBOX),
)
_TABLE_STATES = ("open", "paused", "closed")
_RUN = (
    _Metric("seconds", "run_training_seconds", "Training time, which excludes evaluations.", True),
    _Metric("environment_steps", "run_environment_steps", "Environment steps of all actors or workers.", True),
    _Metric("learner_steps", "run_learner_updates", "Updates of the learner.", True),
    _Metric("episodes", "run_episodes", "Training episodes.", True),
    _Metric("mean_return", "run_mean_return", "Mean return of the last 100 training episodes."),
    _Metric(
        "near_greedy_return",
        "run_near_greedy_return",
        "Mean return of the last 20 episodes of environments that hardly explore.",
    ),
    _Metric("evaluation_return", "run_evaluation_return", "Mean return of the last evaluation."),
    _Metric("best_evaluation", "run_best_evaluation_return", "Mean return of the best evaluation."),
    _Metric("samples_per_insert", "run_samples_per_insert_ratio", "Transitions sampled per transition inserted."),
    _Metric("staleness", "run_staleness_updates", "Updates by which the acting policy is behind, on average."),
    _Metric("loss", "run_loss", "Loss of the last update."),
    _Metric("replay_size", "run_replay_transitions", "Transitions in the replay."),
    _Metric("replay_capacity", "run_replay_capacity_transitions", "Transitions that the replay can store."),
    _Metric("replay_bytes", "run_replay_bytes", "Bytes of the chunks in the replay."),
    _Metric("policy_version", "run_policy_version", "Version of the learner's newest policy."),
    _Metric("actors_alive", "run_acting_processes_alive", "Actors or workers that report."),
    _Metric("actors_total", "run_acting_processes", "Actors or workers that the run has."),
    _Metric("paused", "run_paused", "1 while an evaluation is running, otherwise 0."),
)
_BOTTLENECKS = ("actors", "learner", "balanced")


def server_families(stats: Mapping[str, Any]) -> list[Family]:
    """The metrics of a server's `stats()`."""
    families = [_family(metric, [((), stats.get(metric.key))]) for metric in _SERVER]
    connections = stats["connections"]
    blocked = sum(bool(each["blocked"]) for each in connections)
    for name, text, value in (
        ("connections", "Connections that are open.", len(connections)),
        ("blocked_connections", "Connections with a request that waits for the limiter.", blocked),
    ):
        families.append(GaugeMetricFamily(f"headrace_server_{name}", text, value=value))
    for group, label, metrics in _GROUPS:
        things = sorted(stats[group].items())
        families += [
            _family(each, [((name,), thing.get(each.key)) for name, thing in things], label) for each in metrics
        ]
    states = StateSetMetricFamily("headrace_table_state", "What the table allows.", labels=["table"])
    for name, table in sorted(stats["tables"].items()):
        states.add_metric([name], {state: table["state"] == state for state in _TABLE_STATES})
    return [*families, states]


class RunMetrics:
    """The metrics of a run, from its newest records. Thread-safe."""

    def __init__(self, *, environment: str, algorithm: str, topology: str) -> None:
        self._info = {"environment": environment, "algorithm": algorithm, "topology": topology}
        self._lock = Lock()
        self._progress: Mapping[str, Any] = {}
        self._deaths: Counter[str] = Counter()

    def append(self, record: Mapping[str, Any]) -> None:
        """Takes a record as it is written to metrics.jsonl."""
        with self._lock:
            if record["kind"] == "progress":
                self._progress = record
            elif record["kind"] == "exit":
                self._deaths[str(record["role"]).partition(" ")[0]] += 1

    def close(self) -> None:
        """Does nothing: the HTTP server is closed by serve_metrics()."""

    def families(self) -> list[Family]:
        """The metrics of the newest snapshot; those without a value are left out."""
        with self._lock:
            progress, deaths = self._progress, dict(self._deaths)
        families = [InfoMetricFamily("headrace_run", "What the run trains.", value=self._info)]
        families += [_family(metric, [((), progress.get(metric.key))]) for metric in _RUN]
        shares = GaugeMetricFamily(
            "headrace_run_time_ratio", "Share of a side's time in each phase.", labels=["side", "phase"]
        )
        for side in ("actor", "learner"):
            for phase, share in progress.get(f"{side}_times", {}).items():
                shares.add_metric([side, phase], share)
        ended = CounterMetricFamily("headrace_run_process_deaths", "Processes of the run that died.", labels=["role"])
        for role, number in sorted(deaths.items()):
            ended.add_metric([role], number)
        bottleneck = StateSetMetricFamily("headrace_run_bottleneck", "The bottleneck of a run with actors.")
        if progress.get("bottleneck") is not None:
            bottleneck.add_metric([], {side: progress["bottleneck"] == side for side in _BOTTLENECKS})
        return [*families, shares, ended, bottleneck]


@contextlib.contextmanager
def serve_metrics(listen: str, source: Source) -> Iterator[str]:
    """A context in which HTTP requests are answered with the source's metrics; its value is their address.

    `listen` is HOST:PORT, or PORT for this machine only; port 0 is a free one. The source is not called after the end.
    Raises ConfigError if the address can't be used.
    """
    host, port = _parse(listen)
    registry = CollectorRegistry(auto_describe=False)
    collector = _Collector(source)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"metrics_listen is {listen!a}, which can't be used: {reason}") from error
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        collector.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Collector:
    """Calls a source for one request at a time, until it is closed."""

    def __init__(self, source: Source) -> None:
        self._source: Source | None = source
        self._lock = Lock()

    def collect(self) -> Sequence[Family]:
        with self._lock:
            return self._source() if self._source is not None else []

    def close(self) -> None:
        with self._lock:
            self._source = None


def _family(metric: _Metric, values: Sequence[tuple[Sequence[str], Any]], label: str | None = None) -> Family:
    """One metric with a sample for each value; values that are None are left out."""
    kind = CounterMetricFamily if metric.counter else GaugeMetricFamily
    family = kind(f"headrace_{metric.name}", metric.help, labels=[label] if label else [])
    for labels, value in values:
        if value is not None:
            family.add_metric(list(labels), float(value))
    return family


def _parse(listen: str) -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT for IPv6, or PORT, as host and port."""
    match = re.fullmatch(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):)?([0-9]{1,5})", listen)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"metrics_listen is {listen!a}; it must be HOST:PORT or PORT, such as 127.0.0.1:9101")
    return match[1] or match[2] or "127.0.0.1", int(match[3])
