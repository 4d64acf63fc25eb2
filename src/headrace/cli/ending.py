"""What a command says of a run that has stopped: its summary, or its failure and the command that repeats it."""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import DivergenceError, HeadraceError, LaunchError, ServerError
from headrace.report.formats import count, duration, earlier_policy, score_text

if TYPE_CHECKING:
    from headrace.training import Result

__all__ = ["FAILURES", "conclude", "repeatable"]

FAILURES = (LaunchError, ServerError, DivergenceError)
"""Errors of a run that are no user's mistake: in simulated time the same command repeats them."""

_STOPS = {
    "score": ("reached the target score", " --until-score X"),
    "steps": ("all steps done", " --steps N"),
    "time": ("time is up", " --time-limit TIME"),
    "interrupt": ("interrupted, and saved", ""),
}
"""Why a run ended, and the option with which a resumed run continues further."""


def conclude(result: "Result") -> int:
    """Prints the summary of a run and the commands to use next; returns the exit code, 130 after an interrupt."""
    summary = result.summary
    path = shlex.quote(str(result.run.shown))
    stopped_by = str(summary["stopped_by"])
    reason, further = _STOPS.get(stopped_by, (stopped_by, ""))
    print(f"\n{summary['environment']}: {reason}")
    if summary.get("mean_return") is not None:
        mean, episodes = score_text(summary["mean_return"], summary.get("std_return")), summary["evaluation_episodes"]
        print(f"  return    {mean} over {episodes} greedy episodes{earlier_policy(summary)}")
    if summary.get("seconds_to_score") is not None:
        print(f"  solved    after {duration(summary['seconds_to_score'])}")
    print(
        f"  trained   {count(summary['environment_steps'])} steps, {count(summary['episodes'])} episodes, "
        f"{count(summary['learner_steps'])} updates in {duration(summary['wall_seconds'])}"
    )
    if summary.get("exits"):
        print(f"  restarts  {count(len(summary['exits']))}: {_deaths(summary['exits'])}")
    print(f"  saved in  {path}")
    print("\nnext:")
    print(f"  headrace evaluate {path}")
    print(f"  headrace report {path}")
    print(f"  headrace resume {path}{further}")
    return 130 if stopped_by == "interrupt" else 0


def repeatable(failure: HeadraceError, command: Sequence[str]) -> HeadraceError:
    """The same failure with the command that repeats it."""
    return type(failure)(f"{failure}; to repeat it: {shlex.join(command)}")


def _deaths(exits: list[dict[str, Any]]) -> str:
    """The roles that died and how often each did, such as "actor 0 (2), evaluator 0"."""
    deaths = Counter(str(each["role"]) for each in exits)
    return ", ".join(f"{role} ({number})" if number > 1 else role for role, number in deaths.items())
