"""Computes the study's figures from the processes' measurements. Definitions: README.md."""

from collections.abc import Sequence
from math import nan
from typing import Any

from headrace.studies.in_network.case import LEARNER_PHASES
from headrace.studies.in_network.measure import Record
from headrace.studies.statistics import mean, quantile
from headrace.studies.training import ACTOR_PHASES

__all__ = ["COLUMNS", "decrease", "figures_of"]

_ACTOR_COMMUNICATION = ("push", "pull")
COLUMNS = (
    *("round", "variant", "transport", "actors", "kind", "batch_size", "link_gbit_s", "link_delay_us"),
    "updates_per_s",
    *(f"{name}_{statistic}_us" for name in ("sampling", "access") for statistic in ("mean", "p50", "p99")),
    *("pull_transitions_s", "pull_wire_mb_s", "push_p50_us", "push_p99_us"),
    *("parameters_p50_us", "parameters_p99_us", "parameters_mb", "ideal_frames_s", "actual_frames_s"),
    *("bytes_per_transition", "communication_actors", "communication_learner", "communication_total"),
    *("server_cores", "to_learner_mb_s", "from_learner_mb_s", "redis_client"),
    *(f"actor_{phase}" for phase in ACTOR_PHASES),
    *(f"learner_{phase}" for phase in LEARNER_PHASES),
)
"""Columns of a row of figures_of()."""
_ACCESS = ("pull", "store", "sample", "wait", "priorities")
_SAMPLING = ("sample", "wait")


def figures_of(record: Record) -> dict[str, Any]:
    """One row: the case, then its figures. Seconds become microseconds; without latencies a figure is nan."""
    case, updates = record.case, record.learner["updates"]
    access, sampling = _sum(updates, _ACCESS), _sum(updates, _SAMPLING)
    pushes = [seconds for actor in record.actors for seconds in actor["push_seconds"]]
    pulls = [seconds for actor in record.actors for seconds in actor["pull_seconds"]]
    acted = sum(actor["seconds"] for actor in record.actors)
    talked = sum(actor["phases"][phase] for actor in record.actors for phase in _ACTOR_COMMUNICATION)
    steps = sum(actor["steps"] for actor in record.actors)
    learned = record.learner["seconds"]
    learner_talked = sum(sum(updates[phase]) for phase in _learner_communication(case.variant))
    actor_phases = {p: sum(actor["phases"][p] for actor in record.actors) / acted for p in ACTOR_PHASES}
    return {
        **{name: getattr(case, name) for name in COLUMNS[:6]},
        "link_gbit_s": case.link.rate_bits / 1e9 if case.link else None,
        "link_delay_us": case.link.delay_seconds * 1e6 if case.link else None,
        "updates_per_s": len(access) / learned,
        **_latencies("sampling", sampling),
        **_latencies("access", access),
        "pull_transitions_s": record.learner["pull"]["transitions"],
        "pull_wire_mb_s": record.learner["pull"]["wire_bytes"] / 1e6,
        "push_p50_us": 1e6 * quantile(pushes, 0.5),
        "push_p99_us": 1e6 * quantile(pushes, 0.99),
        "parameters_p50_us": 1e6 * quantile(pulls, 0.5),
        "parameters_p99_us": 1e6 * quantile(pulls, 0.99),
        "parameters_mb": record.learner["parameter_bytes"] / 1e6,
        "ideal_frames_s": steps / (acted - talked) if acted > talked else nan,
        "actual_frames_s": steps / acted,
        "bytes_per_transition": _bytes_per_transition(record),
        "communication_actors": talked / acted,
        "communication_learner": learner_talked / learned,
        "communication_total": (talked + learner_talked) / (acted + learned),
        "server_cores": record.server_cpu_seconds,
        "to_learner_mb_s": record.sent["server-learner"] / 1e6 if record.sent else None,
        "from_learner_mb_s": record.sent["learner-server"] / 1e6 if record.sent else None,
        "redis_client": record.redis_client,
        **{f"actor_{phase}": share for phase, share in actor_phases.items()},
        **{f"learner_{phase}": sum(updates[phase]) / learned for phase in LEARNER_PHASES},
    }


def _learner_communication(variant: str) -> tuple[str, ...]:
    """The learner's phases that involve the server; with sampling in the learner, priorities stay there."""
    return ("wait", "priorities", "publish") if variant == "server" else ("pull", "publish")


def decrease(before: float, after: float) -> float:
    """The percentage by which `after` is below `before`; negative if it is above."""
    return 100 * (1 - after / before)


def _latencies(name: str, seconds: Sequence[float]) -> dict[str, float]:
    values = {"mean": mean(seconds), "p50": quantile(seconds, 0.5), "p99": quantile(seconds, 0.99)}
    return {f"{name}_{statistic}_us": 1e6 * value for statistic, value in values.items()}


def _sum(updates: dict[str, list[float]], phases: Sequence[str]) -> list[float]:
    """Seconds of each update spent in these phases."""
    return [sum(seconds) for seconds in zip(*(updates[phase] for phase in phases), strict=True)]


def _bytes_per_transition(record: Record) -> Any:
    """Bytes that actors send per transition, counted on the link if there is one, otherwise by chunks."""
    if record.sent:
        return record.actors_sent_bytes / sum(actor["all_transitions"] for actor in record.actors)
    transitions = sum(actor["pushed_transitions"] for actor in record.actors)
    return sum(actor["pushed_bytes"] for actor in record.actors) / transitions if transitions else nan
