"""LunarLander-v3 to a score of 200 through the polling server: python -m benchmarks.bypass_training [--seeds N].

Over memif, where learner and actors bypass the kernel too; from another network namespace, where they are unmodified
clients of the kernel; and the same with a process between that loses 5 % of the frames and reorders others.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bypass import Reached, Start, local, over_veth
from benchmarks.measure import require, write_csv
from headrace.errors import ConfigError
from headrace.servers.polling import find_polling_server
from headrace.studies.in_network.hosts import why_no_hosts

_CASES: dict[str, Start] = {
    "memif": lambda: local("dpdk:memif,socket={folder}/port,ip=10.78.0.1/24"),
    "af_packet": lambda: over_veth(bypass=True),
    "af_packet, 5 % loss": lambda: over_veth(bypass=True, lossy=True),
}
_SCORE = 200
_LIMIT_SECONDS = 600


def _train(reached: Reached, seed: int) -> dict[str, object]:
    """Trains, and returns what the run's summary says."""
    prefix, address, token_file = reached
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        token = ["--token-file", str(token_file)] if token_file else []
        command = [*prefix, sys.executable, "-m", "headrace", "train", "LunarLander-v3", "--until-score", str(_SCORE)]
        command += ["--time-limit", f"{_LIMIT_SECONDS}s", "--seed", str(seed), "--server", address, *token]
        done = subprocess.run([*command, "--run-dir", str(run)], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        summary = json.loads((run / "summary.json").read_text())
    names = ("solved", "seconds_to_score", "steps_to_score", "mean_return", "learner_steps", "environment_steps")
    return {name: summary[name] for name in names} | {"deaths": len(summary["exits"])}


def main() -> int:
    """Trains, prints and writes results/bypass_training.csv; returns status 1 if a run did not reach the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each case (default: 3)")
    seeds = parser.parse_args().seeds
    require("headrace", "Box2D")
    try:
        find_polling_server()
    except ConfigError as error:
        print(f"benchmarks: {error}")
        return 2
    if reason := why_no_hosts():
        print(f"benchmarks: {reason}")
        return 2
    rows = []
    for name, start in _CASES.items():
        for seed in range(seeds):
            with start() as reached:
                rows.append({"case": name, "seed": seed, **_train(reached, seed)})
            print(rows[-1], flush=True)
            write_csv("bypass_training", rows)  # what is measured stays if a later run fails
    return 0 if all(row["solved"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
