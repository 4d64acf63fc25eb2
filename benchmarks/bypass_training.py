"""LunarLander-v3 to a score of 200 through the polling server: python -m benchmarks.bypass_training [--cases NAME ...].

Over memif, where learner and actors bypass the kernel too; from another network namespace, where they are unmodified
clients of the kernel; and the same with a process between that loses 5 % of the frames and reorders others.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bypass import Reached, Start, local, over_veth, why_no_veth
from benchmarks.measure import Rows, make_parser, positive, require, run
from headrace.servers.polling import find_polling_server

_CASES: dict[str, Start] = {
    "memif": lambda: local("dpdk:memif,socket={folder}/port,ip=10.78.0.1/24"),
    "af_packet": lambda: over_veth(bypass=True),
    "lossy": lambda: over_veth(bypass=True, lossy=True),
}
_SCORE = 200
_LIMIT_SECONDS = {"memif": 600, "af_packet": 600, "lossy": 3600}


def _train(reached: Reached, seed: int, limit_seconds: int) -> dict[str, object]:
    """Trains, and returns what the run's summary says."""
    prefix, address, token_file = reached
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        token = ["--token-file", str(token_file)] if token_file else []
        command = [*prefix, sys.executable, "-m", "headrace", "train", "LunarLander-v3", "--until-score", str(_SCORE)]
        command += ["--time-limit", f"{limit_seconds}s", "--seed", str(seed), "--server", address, *token]
        done = subprocess.run([*command, "--run-dir", str(run)], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        summary = json.loads((run / "summary.json").read_text())
    names = ("solved", "seconds_to_score", "steps_to_score", "mean_return", "learner_steps", "environment_steps")
    return {name: summary[name] for name in names} | {"deaths": len(summary["exits"])}


def main() -> int:
    """Trains, prints, writes results/bypass_training_<case>.csv; returns status 1 if a run did not reach the score."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=positive, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--cases", nargs="+", choices=_CASES, default=list(_CASES), help="default: all")
    arguments = parser.parse_args()
    require("headrace", "Box2D")
    find_polling_server()
    reason = why_no_veth() if set(arguments.cases) - {"memif"} else ""
    if reason:
        print(f"benchmarks: {reason}")
        return 2
    solved = True
    for name in arguments.cases:
        with Rows(f"bypass_training_{name}") as rows:
            for seed in range(arguments.seeds):
                with _CASES[name]() as reached:
                    rows.add({"case": name, "seed": seed, **_train(reached, seed, _LIMIT_SECONDS[name])})
                print(rows.records[-1], flush=True)
        solved = solved and all(record["solved"] for record in rows.records)
    return 0 if solved else 1


if __name__ == "__main__":
    run(main)
