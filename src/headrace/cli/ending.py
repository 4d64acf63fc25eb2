"""What is said when a run has stopped."""

import shlex
from typing import TYPE_CHECKING

from headrace.report.formats import count, duration, number

if TYPE_CHECKING:
    from headrace.training import Result

__all__ = ["conclude"]

_STOPS = {
    "score": "reached the target score",
    "steps": "all steps done",
    "time": "time is up",
    "interrupt": "interrupted, and saved",
}


def conclude(result: "Result") -> int:
    """Prints the summary of a run and what may follow; returns the exit code, 130 after an interrupt."""
    summary = result.summary
    path = shlex.quote(str(result.run.path))
    stopped_by = str(summary["stopped_by"])
    print(f"\n{summary['environment']}: {_STOPS.get(stopped_by, stopped_by)}")
    if summary.get("mean_return") is not None:
        spread = f" ± {number(summary['std_return'])}" if summary.get("std_return") is not None else ""
        mean, episodes = number(summary["mean_return"]), summary["evaluation_episodes"]
        print(f"  return    {mean}{spread} over {episodes} greedy episodes")
    if summary.get("seconds_to_score") is not None:
        print(f"  solved    after {duration(summary['seconds_to_score'])}")
    print(
        f"  trained   {count(summary['environment_steps'])} steps, {count(summary['episodes'])} episodes, "
        f"{count(summary['learner_steps'])} updates in {duration(summary['wall_seconds'])}"
    )
    print(f"  kept in   {path}")
    print("\nnext:")
    print(f"  headrace evaluate {path}")
    print(f"  headrace report {path}")
    print(f"  headrace resume {path}" + ("" if stopped_by == "interrupt" else " --steps N"))
    return 130 if stopped_by == "interrupt" else 0
