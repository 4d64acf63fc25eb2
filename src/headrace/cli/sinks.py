"""Where a run's records go besides its directory: metrics over HTTP, and an experiment tracker."""

import contextlib
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Literal

from headrace.errors import ConfigError
from headrace.report import RunDirectory
from headrace.report.tracking import Tracker, import_tracker
from headrace.servers import shown
from headrace.settings import RunConfig

__all__ = ["Sinks", "TrackerName", "import_metrics", "open_sinks"]

TrackerName = Literal["wandb"]


class Sinks:
    """What a run's records go to once its directory exists."""

    def __init__(self, config: RunConfig, metrics: Any, tracker: Any) -> None:
        self._config = config
        self._metrics = metrics
        self._tracker = tracker

    def attach(self, directory: RunDirectory) -> None:
        """Sends the records of the directory to the sinks, which are closed with it."""
        if self._metrics is not None:
            directory.add_sink(self._metrics)
        if self._tracker is not None:
            settings = json.loads(self._config.to_json())
            if self._config.server.address:
                settings["server"]["address"] = shown(self._config.server.address)  # without its password
            directory.add_sink(Tracker(self._tracker, directory.path, settings))


@contextlib.contextmanager
def open_sinks(config: RunConfig, metrics_listen: str | None, tracker: TrackerName | None) -> Iterator[Sinks]:
    """A context with the sinks of a run; prints the address of metrics, as `headrace serve` does, even if quiet.

    Raises ConfigError for an address that can't be used or a missing extra.
    """
    module = import_tracker(tracker) if tracker is not None else None
    if metrics_listen is None:
        yield Sinks(config, None, module)
        return
    metrics = import_metrics()
    run = metrics.RunMetrics(
        environment=config.environment, algorithm=config.algorithm.name, topology=config.topology.name
    )
    with metrics.serve_metrics(metrics_listen, run.families) as address:
        with contextlib.suppress(OSError):  # a closed pipe does not end the run
            print(f"metrics at {address}", flush=True)
        yield Sinks(config, run, module)


def import_metrics() -> Any:
    """The module `headrace.report.metrics`; raises ConfigError without its extra."""
    try:
        return import_module("headrace.report.metrics")
    except ImportError as error:
        raise ConfigError(f'metrics need an extra: pip install "headrace[metrics]" ({error})') from None
