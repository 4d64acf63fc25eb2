"""Trains every preset to its score with several seeds, and evaluates the final policy on separate episodes.

    python -m benchmarks.learning [--seeds 3] [--only CartPole-v1]
    nice -n 10 python -m benchmarks.learning --only spaces

A run stops at the first 100 greedy episodes that average `stop_at`, or at its time limit. A score that decides when to
stop is biased upwards, so the policy is judged by 100 more episodes with seeds that the run never used: their mean,
`fresh_mean`, must reach `required`. For the same reason `stop_at` is set a little higher.

`--only spaces` trains the environments with other spaces than Box in the serial topology, each for the steps of its
preset, and judges the last policy by `episodes` episodes; `best` is the best possible mean. The results do not depend
on the machine.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import headrace
from benchmarks.measure import write_csv
from headrace.networks.precision import Precision
from headrace.settings import preset
from headrace.topologies.config import TopologyName


class Target(NamedTuple):
    """A score that a preset must reach. `stop_at` ends the run, or its preset's steps do.

    A precision other than fp32 is that of the actors. `best` is the best possible mean, where it is known.
    """

    environment: str
    algorithm: str
    topology: TopologyName
    required: float
    stop_at: float | None
    precision: Precision = "fp32"
    episodes: int = 100
    best: float | None = None


WORKERS: tuple[TopologyName, ...] = ("hogwild", "lock", "ad-psgd", "parameter-server")
TARGETS = (
    Target("CartPole-v1", "dqn", "serial", 500.0, 500.0),
    Target("CartPole-v1", "dqn", "apex", 500.0, 500.0),
    Target("Acrobot-v1", "dqn", "apex", -85.0, -80.0),
    Target("MountainCar-v0", "dqn", "apex", -110.0, -105.0),
    Target("LunarLander-v3", "dqn", "apex", 200.0, 220.0),
    Target("LunarLander-v3", "dqn", "serial", 200.0, 220.0),
    Target("LunarLanderContinuous-v3", "sac", "serial", 200.0, 220.0),
    Target("headrace/Snake-v0", "dqn", "apex", 20.0, 22.0),  # an apple is worth 1, a death -1
    Target("Pendulum-v1", "sac", "serial", -200.0, -180.0),
    Target("Pendulum-v1", "sac", "apex", -200.0, -180.0),
    Target("Pendulum-v1", "sac", "apex", -200.0, -180.0, "int8"),
    *(Target("Pendulum-v1", "sac", topology, -200.0, -180.0) for topology in WORKERS),
    Target("Pendulum-v1", "td3", "serial", -200.0, -180.0),
    Target("Pendulum-v1", "td3", "apex", -200.0, -180.0),
    *(Target("Pendulum-v1", "td3", topology, -200.0, -180.0) for topology in WORKERS),
    Target("Pendulum-v1", "d4pg", "serial", -200.0, -180.0),
    *(Target("Pendulum-v1", "d4pg", topology, -200.0, -180.0) for topology in WORKERS),
)
SPACES = (
    Target("headrace/FrozenLakeNotSlippery-v0", "dqn", "serial", 1.0, None, best=1.0),
    Target("FrozenLake-v1", "dqn", "serial", 0.7, None, episodes=1_000, best=0.74),  # within its 100 steps
    Target("Taxi-v4", "dqn", "serial", 7.5, None, episodes=1_000, best=7.9),
    Target("Blackjack-v1", "dqn", "serial", -0.07, None, episodes=20_000, best=-0.045),  # the standard error is 0.007
    Target("minigrid/DoorKey-5x5-v0", "dqn", "serial", 0.9, None, episodes=300, best=0.96),
    Target("headrace/Reach-v0", "sac", "serial", -1.2, None, episodes=1_000, best=-0.81),
    Target("headrace/Wheels-v0", "dqn", "serial", 14.5, None, best=15.0),
)
TIME_LIMIT_SECONDS = 300.0
FRESH_SEED = 1_000_003


def measure(target: Target, seed: int) -> dict[str, object]:
    """One run and its two evaluations."""
    known = preset(target.environment, target.algorithm)
    topology = known.topology(target.topology)
    precision: dict[str, Any] = {} if target.precision == "fp32" else {"precision": target.precision}
    limits: dict[str, Any] = {"until_score": target.stop_at, "time_limit_seconds": TIME_LIMIT_SECONDS}
    if target.stop_at is None:
        limits = {"steps": known.steps}
    with tempfile.TemporaryDirectory() as folder:
        result = headrace.train(
            target.environment,
            algorithm=known.algorithm,
            topology=dataclasses.replace(topology, **precision),
            **limits,
            seed=seed,
            evaluation_period_seconds=5,
            evaluation_period_steps=5_000,
            run_dir=Path(folder) / "run",
            quiet=True,
        )
        fresh = result.evaluate(episodes=target.episodes, seed=FRESH_SEED + seed)
    summary = result.summary
    return {
        **target._asdict(),
        "seed": seed,
        "holds": fresh.mean >= target.required,
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
    parser.add_argument("--only", help="one environment, or spaces")
    options = parser.parse_args()
    rows = []
    chosen = (
        SPACES if options.only == "spaces" else [each for each in TARGETS if options.only in (None, each.environment)]
    )
    for target in chosen:
        for seed in range(options.seeds):
            rows.append(measure(target, seed))
            print(json.dumps(rows[-1]), flush=True)
            write_csv("learning" if options.only is None else f"learning-{Path(options.only).name}", rows)
    sys.exit(0 if all(row["holds"] for row in rows) else 1)


if __name__ == "__main__":
    main()
