"""`headrace resume`: continues a run, with other stopping rules if they are given."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.arguments import MetricsListen, Run, Switch, TimeLimit, parse
from headrace.cli.ending import conclude
from headrace.cli.sinks import TrackerName, open_sinks
from headrace.report import Heading, RunDirectory, open_display
from headrace.signals import held_back

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    run: Run
    """Run directory."""
    steps: int | None = None
    """Stop after this many environment steps, including those already done."""
    time_limit_seconds: TimeLimit = None
    """Stop after this much training time, including the time already spent: 90, 90s, 10m or 2h."""
    until_score: float | None = None
    """Stop once 100 greedy episodes average at least this."""
    metrics_listen: MetricsListen = None
    """Serve metrics for Prometheus on HOST:PORT, or PORT of this machine only; anyone who can connect may read them.
    The address is printed, even with --quiet."""
    track: TrackerName | None = None
    """Send the numbers that TensorBoard gets to an experiment tracker too."""
    quiet: Switch = False
    """Show nothing while training."""


def run(arguments: Sequence[str]) -> int:
    """Resumes; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace resume",
        description="Resume a run from its last checkpoint. Stopping rules that are not given keep their values.",
    )
    with RunDirectory.open(options.run, writing=True) as directory:
        rules = (options.steps, options.time_limit_seconds, options.until_score)
        config = directory.read_config().with_rules(*rules)
        with held_back():
            from headrace import training
        heading = Heading.of(config, options.run)
        with (
            open_sinks(config, options.metrics_listen, options.track) as sinks,
            open_display(heading, quiet=options.quiet) as display,
        ):
            sinks.attach(directory)
            result = training.resume(
                directory,
                display,
                steps=options.steps,
                time_limit_seconds=options.time_limit_seconds,
                until_score=options.until_score,
            )
    return conclude(result)
