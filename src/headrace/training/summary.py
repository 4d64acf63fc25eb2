"""The summary of a run."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from headrace.training.hardware import describe_machine
from headrace.training.session import Session

__all__ = ["summarize"]


def summarize(
    session: Session,
    stats: Mapping[str, float],
    *,
    exits: Sequence[Mapping[str, Any]],
    places: Mapping[str, int],
    busy_cores: Mapping[str, float],
    stopped_by: str,
) -> dict[str, Any]:
    """Contents of summary.json; `stats` are the table's.

    `exits` has every death of a role since this start of the run, `places` how many roles run on each machine other
    than this one, `busy_cores` the cores that a simulated run kept busy, by kind of process.
    """
    config, monitor, learner = session.config, session.monitor, session.learner
    last, solved = session.evaluations.last, session.evaluations.solved_at
    return {
        "environment": config.environment,
        "algorithm": config.algorithm.name,
        "topology": config.topology.name,
        "device": session.device,
        "precision": session.topology.actor_precision,
        "seed": config.seed,
        "environment_steps": monitor.environment_steps,
        "learner_steps": learner.steps,
        "episodes": monitor.episodes,
        "wall_seconds": session.clock.seconds,
        "total_seconds": session.clock.total_seconds,
        "mean_return": last.mean if last else None,
        "std_return": last.std if last else None,
        "evaluation_episodes": len(last.returns) if last else 0,
        "evaluation_environment_steps": last.moment.environment_steps if last else None,
        "until_score": config.until_score,
        "solved": solved is not None if config.until_score is not None else None,
        "seconds_to_score": solved.moment.seconds if solved else None,
        "steps_to_score": solved.moment.environment_steps if solved else None,
        "stopped_by": stopped_by,
        "samples_per_insert": stats["samples_per_insert"] or None,  # 0: nothing was inserted, or there is no table
        "staleness": learner.mean_staleness,
        "replay_size": int(stats["size"]),
        "replay_bytes": int(stats["used_bytes"]),
        "workers": session.program.figures(),
        "exits": exits,
        "places": places,
        "busy_cores": busy_cores,
        "actor_times": monitor.actor_seconds,
        "learner_times": dict(learner.clock.seconds),
        "machine": describe_machine(),
        "headrace": version("headrace"),
    }
