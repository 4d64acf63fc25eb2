"""Trains every preset to its score with several seeds, and evaluates the final policy on separate episodes.

    python -m benchmarks.learning [--seeds 3] [--only CartPole-v1]

A run stops at the first 100 greedy episodes that average `stop_at`, or at its time limit. A score that decides when to
stop is biased upwards, so the policy is judged by 100 more episodes with seeds that the run never used: their mean,
`fresh_mean`, must reach `required`. For the same reason `stop_at` is set a little higher.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import headrace
from benchmarks.measure import write_csv
from headrace.settings import preset

TARGETS = (
    ("CartPole-v1", "serial", 500.0, 500.0),
    ("CartPole-v1", "apex", 500.0, 500.0),
    ("Acrobot-v1", "apex", -85.0, -80.0),
    ("MountainCar-v0", "apex", -110.0, -105.0),
    ("LunarLander-v3", "apex", 200.0, 220.0),
    ("LunarLander-v3", "serial", 200.0, 220.0),
    ("headrace/Snake-v0", "apex", 20.0, 22.0),  # an apple is worth 1, a death -1
)
TIME_LIMIT_SECONDS = 300.0
FRESH_SEED = 1_000_003


def measure(environment: str, topology: str, required: float, stop_at: float, seed: int) -> dict[str, object]:
    """One run and its two evaluations."""
    with tempfile.TemporaryDirectory() as folder:
        result = headrace.train(
            environment,
            topology=preset(environment).topology(topology),
            until_score=stop_at,
            time_limit_seconds=TIME_LIMIT_SECONDS,
            seed=seed,
            evaluation_period_seconds=5,
            evaluation_period_steps=5_000,
            run_dir=Path(folder) / "run",
            quiet=True,
        )
        fresh = result.evaluate(episodes=100, seed=FRESH_SEED + seed)
    summary = result.summary
    return {
        "environment": environment,
        "topology": topology,
        "required": required,
        "stop_at": stop_at,
        "seed": seed,
        "holds": fresh.mean >= required,
        "seconds_to_score": summary["seconds_to_score"],
        "steps_to_score": summary["steps_to_score"],
        "learner_steps": summary["learner_steps"],
        "mean_return": summary["mean_return"],
        "fresh_mean": fresh.mean,
        "fresh_std": fresh.std,
        "samples_per_insert": summary["samples_per_insert"],
    }


def main() -> None:
    """Runs the table and writes results/learning.csv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="one environment")
    options = parser.parse_args()
    rows = []
    for environment, topology, required, stop_at in TARGETS:
        if options.only in (None, environment):
            for seed in range(options.seeds):
                rows.append(measure(environment, topology, required, stop_at, seed))
                print(json.dumps(rows[-1]), flush=True)
                write_csv("learning" if options.only is None else f"learning-{Path(options.only).name}", rows)
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
