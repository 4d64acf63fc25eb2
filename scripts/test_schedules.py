"""Runs random simulated schedules of each topology on a small environment; all must learn.

Arguments: number of schedules, and the first seed. Half of the runs have random faults. Prints the command of each run
that fails, and exits with 1 if there is one.
"""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ALGORITHM = "--hidden 32 --batch-size 32 --learning-starts 200 --samples-per-step 8 --target-update-period 50"
ALGORITHM += " --chunk-steps 10 --replay-capacity 50000"
DECAY = "--epsilon-decay-steps 1000"
TOPOLOGIES = {
    "serial": f"--envs-per-actor 2 {DECAY}",
    "apex": "--actors 3 --envs-per-actor 2 --pull-period 20 --publish-period 5",
    **dict.fromkeys(("lock", "hogwild", "ad-psgd", "parameter-server"), f"--workers 3 --envs-per-worker 2 {DECAY}"),
}
RULES = "--steps 100k --until-score 0.9 --evaluation-period-seconds 1 --evaluation-period-steps 1000"
RULES += " --checkpoint-period-seconds 1000"
PROGRESS_EVERY = 600


def commands(schedules: int, first: int) -> Iterator[list[str]]:
    """The words of each run after `headrace`."""
    for seed in range(first, first + schedules):
        simulated = f"--launcher simulated --cores {1 + seed % 4} --faults {'random:0.3' if seed % 2 else 'none'}"
        for topology, sizes in TOPOLOGIES.items():
            words = f"train headrace.environments.toy:Corridor --topology {topology} {sizes} {ALGORITHM} {RULES}"
            yield [*words.split(), *simulated.split(), "--seed", str(seed)]


def fault_of(words: list[str]) -> str:
    """Runs a schedule; returns what is wrong with it, empty for one that reached its score."""
    from headrace.cli.main import main

    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (as long as the process)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        if code := main([*words, "--quiet", "--run-dir", str(run)]):
            return f"exit code {code}"
        stopped_by = json.loads((run / "summary.json").read_text())["stopped_by"]
        return "" if stopped_by == "score" else f"stopped by {stopped_by}"


def main() -> int:
    """Runs all schedules; returns the exit code."""
    runs, failed = list(commands(int(sys.argv[1]), int(sys.argv[2]))), 0
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as executor:
        for number, (words, fault) in enumerate(zip(runs, executor.map(fault_of, runs), strict=True), start=1):
            if fault:
                failed += 1
                print(f"{fault}: headrace {shlex.join(words)}", flush=True)
            if number % PROGRESS_EVERY == 0:
                print(f"{number - failed} of {number} schedules learned; {len(runs) - number} to go", flush=True)
    print(f"{len(runs) - failed} of {len(runs)} schedules learned")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
