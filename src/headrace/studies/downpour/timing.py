"""Times of a gradient, of its push and of the fetch of parameters."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.studies.downpour.cases import TimingCase
from headrace.studies.downpour.server import SETTINGS, ShardCounts, start_server
from headrace.studies.downpour.worker import WorkerSettings
from headrace.studies.processes import Process

__all__ = ["COLUMNS", "figures_of", "measure_timing"]

_WORKER = "headrace.studies.downpour.worker"
_START_SECONDS = 120.0
_ANSWER_SECONDS = 300.0
_FLOAT_BYTES = 4

COLUMNS = (
    *("pixels", "transport", "round", "batch_size", "parameters", "message_mb", "gradients"),
    *("gradient_ms", "push_ms", "apply_ms", "move_ms", "fetch_ms", "share"),
    *("pushes", "busy_push_ms", "busy_apply_ms", "updates_per_second"),
    *("pass_ms", "copy_ms", "apply_alone_ms", "apply_passes", "apply_alone_passes"),
)
"""Columns of a row of figures_of()."""


def measure_timing(case: TimingCase) -> dict[str, Any]:
    """One row; raises LaunchError if a process ends or does not answer in time."""
    with tempfile.TemporaryDirectory(prefix="headrace-study-") as name:
        folder = Path(name)
        with (
            start_server(folder) as server,
            Process("the worker", [sys.executable, "-m", _WORKER], folder / "worker.log") as worker,
        ):
            settings = WorkerSettings(server.address(case.transport), case.transport, case.pixels, case.seconds)
            worker.tell(settings)
            worker.hear("ready", _START_SECONDS)
            records, counts = {}, [server.counts()]
            for part in ("gradients", "pushes", "limits"):
                worker.say(part)
                records[part] = json.loads(worker.listen(_ANSWER_SECONDS))
                counts.append(server.counts())
    return figures_of(case, records, counts)


def figures_of(case: TimingCase, records: dict[str, dict[str, float]], counts: list[ShardCounts]) -> dict[str, Any]:
    """The figures, from the worker's records and the server's counts before, between and after its two loops.

    The worker's times are medians. The server's are means, because it keeps only a sum; the transfer is the rest of
    the push's mean.
    """
    turns, pushes, limits = (records[part] for part in ("gradients", "pushes", "limits"))
    apply_ms, busy_apply_ms = (
        1e3 * (after.apply_seconds - before.apply_seconds) / (after.accepted - before.accepted)
        for before, after in ((counts[0], counts[1]), (counts[1], counts[2]))
    )
    gradient_ms, push_ms, fetch_ms = (1e3 * turns[part] for part in ("gradient", "push", "fetch"))
    pass_ms, copy_ms, alone_ms = (1e3 * limits[part] for part in ("pass", "copy", "apply"))
    return {
        "pixels": case.pixels,
        "transport": case.transport,
        "round": case.round,
        "batch_size": SETTINGS.batch_size,
        "parameters": int(turns["parameters"]),
        "message_mb": turns["parameters"] * _FLOAT_BYTES / 1e6,
        "gradients": int(turns["count"]),
        "gradient_ms": gradient_ms,
        "push_ms": push_ms,
        "apply_ms": apply_ms,
        "move_ms": 1e3 * turns["push_mean"] - apply_ms,
        "fetch_ms": fetch_ms,
        "share": (push_ms + fetch_ms) / gradient_ms,
        "pushes": int(pushes["count"]),
        "busy_push_ms": 1e3 * pushes["push"],
        "busy_apply_ms": busy_apply_ms,
        "updates_per_second": 1 / pushes["mean"],
        "pass_ms": pass_ms,
        "copy_ms": copy_ms,
        "apply_alone_ms": alone_ms,
        "apply_passes": busy_apply_ms / pass_ms,
        "apply_alone_passes": alone_ms / pass_ms,
    }
