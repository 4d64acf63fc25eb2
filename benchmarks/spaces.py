"""Trains environments with other spaces than Box, and judges the last policies next to the best possible mean.

    python -m benchmarks.spaces [--seeds 3] [--only Taxi-v4]

Each run is serial and takes the steps of its preset; then `episodes` greedy episodes with seeds that the run never used
give `fresh_mean`, which must reach `required`. The results do not depend on how fast the machine is.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Rows, make_parser, positive, run
from benchmarks.outcome import FRESH_SEED, train
from headrace.settings import preset


class Target(NamedTuple):
    """A mean return that a preset must reach; `best` is the best possible one, `source` how that is known."""

    environment: str
    required: float
    best: float
    source: str
    episodes: int = 100


TARGETS = (
    Target("headrace/FrozenLakeNotSlippery-v0", 1.0, 1.0, "the goal is worth 1"),
    Target("FrozenLake-v1", 0.7, 0.74, "value iteration over its 100 steps", 1_000),
    Target("Taxi-v4", 7.5, 7.9, "shortest routes", 1_000),
    Target("Blackjack-v1", -0.07, -0.045, "dynamic programming with endless cards", 20_000),  # standard error 0.007
    Target("headrace/Wheels-v0", 14.5, 15.0, "every wheel right in every step"),
    Target("minigrid/DoorKey-5x5-v0", 0.9, 0.965, "shortest routes", 1_000),
    Target("headrace/Reach-v0", -1.5, -0.81, "the straight way", 1_000),
)


def measure(target: Target, seed: int) -> dict[str, object]:
    """One run and its evaluation."""
    judged = judge(target.environment, seed, target.episodes)
    return {**target._asdict(), "holds": judged["fresh_mean"] >= target.required, **judged}


def judge(environment: str, seed: int, episodes: int) -> dict[str, Any]:
    """A serial run of the preset, and the mean return of its last policy in greedy episodes that it never saw."""
    known = preset(environment)
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            environment,
            algorithm=known.algorithm,
            topology=known.topology("serial"),
            steps=known.steps,
            seed=seed,
            evaluation_period_steps=known.steps,
            final_evaluation_episodes=0,
            run_dir=Path(folder) / "run",
        )
        fresh = result.evaluate(episodes=episodes, seed=FRESH_SEED + seed)
    return {
        "algorithm": known.algorithm.name,
        "seed": seed,
        "environment_steps": result.summary["environment_steps"],
        "learner_steps": result.summary["learner_steps"],
        "fresh_mean": fresh.mean,
        "fresh_std": fresh.std,
    }


def main() -> int:
    """Runs the table and writes results/spaces.csv; returns status 1 if a required mean is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--only", choices=[target.environment for target in TARGETS], help="one environment")
    options = parser.parse_args()
    with Rows("spaces" if options.only is None else f"spaces-{Path(options.only).name}") as rows:
        for target in TARGETS:
            if options.only in (None, target.environment):
                for seed in range(options.seeds):
                    record = measure(target, seed)
                    print(json.dumps(record), flush=True)
                    rows.add(record)
    return int(not all(record["holds"] for record in rows.records))


if __name__ == "__main__":
    run(main)
