"""LunarLander-v3 to 200 with local processes and with Ray on this machine, in turn, seed by seed.

Ray must not cost training time: the median time to the score is at most 1.15 times that with processes, and the same
actors make at least 0.97 times the environment steps per second once all processes have started. The training clock
begins before they have, so the time to the score includes what Ray's slower start costs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Rows,
    at_least,
    at_most,
    make_parser,
    positive,
    positive_number,
    report,
    require,
    run,
    warn_if_busy,
)
from benchmarks.outcome import EVALUATION_PERIOD_SECONDS, PERIODIC_EPISODES
from headrace.environments import describe

_ROOT = Path(__file__).parent.parent
_LAUNCHERS = {"processes": (), "ray": ("--ray-address", "local")}
_RATIO = 1.15
_SHARE = 0.97
_START_SECONDS = 5.0
"""By then all processes run, those that Ray starts for itself too."""


def _run(launcher: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            *(sys.executable, "-m", "headrace", "train", arguments.environment, "--quiet", "--run-dir", str(run)),
            *(
                "--launcher",
                launcher,
                *_LAUNCHERS[launcher],
                "--seed",
                str(seed),
                "--until-score",
                str(arguments.score),
            ),
            *("--time-limit", str(arguments.time_limit)),
            *("--evaluation-period-seconds", str(EVALUATION_PERIOD_SECONDS)),
            *("--evaluation-episodes", str(PERIODIC_EPISODES)),
        ]
        subprocess.run(command, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)
        summary = json.loads((run / "summary.json").read_text())
        steps_per_second = _steady_rate(run)
    record = {
        "launcher": launcher,
        "seed": seed,
        "seconds_to_score": summary["seconds_to_score"] or arguments.time_limit,
        "solved": summary["solved"],
        "steps_per_second": steps_per_second,
        "steps_per_second_with_start": summary["environment_steps"] / summary["wall_seconds"],
    }
    print(record, flush=True)
    return record


def _steady_rate(run: Path) -> float:
    """Environment steps per second from the end of the start to the last progress record."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    late = [each for each in records if each["kind"] == "progress" and each["seconds"] >= _START_SECONDS]
    if len(late) < 2:
        print(f"a run ended before its speed could be measured, within about {_START_SECONDS:g} s", file=sys.stderr)
        sys.exit(2)
    first, last = late[0], late[-1]
    return float((last["environment_steps"] - first["environment_steps"]) / (last["seconds"] - first["seconds"]))


def main() -> int:
    """Runs every seed with both; writes launchers_runs.csv and launchers.csv; status 1 if a bound is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--environment", default="LunarLander-v3")
    parser.add_argument("--score", type=float, default=200.0)
    parser.add_argument("--seeds", type=positive, default=5, help="seeds 0 .. N-1")
    parser.add_argument("--time-limit", type=positive_number, default=300.0, help="training seconds of each run")
    arguments = parser.parse_args()
    require("headrace", "ray", "Box2D")
    describe(arguments.environment)
    warn_if_busy()
    with Rows("launchers_runs") as rows:
        for seed in range(arguments.seeds):
            for launcher in _LAUNCHERS:
                rows.add(_run(launcher, arguments, seed))
    records = rows.records

    def median(launcher: str, field: str) -> float:
        return statistics.median(float(each[field]) for each in records if each["launcher"] == launcher)

    seconds = {name: median(name, "seconds_to_score") for name in _LAUNCHERS}
    rates = {name: median(name, "steps_per_second") for name in _LAUNCHERS}
    solved = [bool(each["solved"]) for each in records if each["launcher"] == "ray"]
    return report(
        "launchers",
        [
            at_least("runs that reach the score, with Ray", "", sum(solved), "all", len(solved), 1.0),
            at_most("time to score", "s", seconds["ray"], _RATIO, "processes", seconds["processes"], scale=True),
            at_least("environment steps", "1/s", rates["ray"], "processes", rates["processes"], _SHARE),
        ],
    )


if __name__ == "__main__":
    run(main)
