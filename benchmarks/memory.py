"""Trains R2D2 and, for comparison, a feed-forward DQN on tasks that need memory, with several seeds.

    nice -n 10 python -m benchmarks.memory --only headrace/TMaze-v0 [--seeds 3] [--jobs 1]

Both run in the serial topology, R2D2 with its preset until 100 greedy episodes average `stop_at`, and DQN with that of
CartPole-v1 for `dqn_steps`. As in `benchmarks.zoo`, each policy is judged by 100 more episodes with seeds that the
run never used: `fresh_mean` of R2D2 must reach `required`, and that of DQN must stay within `dqn_most`. Steps limit the
runs, not time: the results do not depend on the machine.
"""

import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Rows, make_parser, positive, run
from benchmarks.outcome import FRESH_SEED, train
from headrace.settings import preset


class Task(NamedTuple):
    """The scores required of R2D2, and the most that a policy without memory gets."""

    environment: str
    required: float
    stop_at: float
    dqn_most: float
    dqn_steps: int


TASKS = (
    Task("headrace/TMaze-v0", 0.95, 0.95, 0.65, 60_000),  # 1 is the best; 0.5 is chance, 0.65 three standard errors up
    Task("headrace/CartPolePositions-v0", 450.0, 475.0, 200.0, 60_000),
)


def measure(task: Task, algorithm: str, seed: int) -> dict[str, object]:
    """One run and its evaluation."""
    recurrent = algorithm == "r2d2"
    known = preset(task.environment, algorithm) if recurrent else preset("CartPole-v1", algorithm)
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            task.environment,
            algorithm=known.algorithm,
            topology=preset(task.environment).topology("serial"),
            steps=known.steps if recurrent else task.dqn_steps,
            until_score=task.stop_at if recurrent else None,
            seed=seed,
            evaluation_period_steps=10_000,
            run_dir=Path(folder) / "run",
        )
        fresh = result.evaluate(episodes=100, seed=FRESH_SEED + seed)
    summary = result.summary
    return {
        "environment": task.environment,
        "algorithm": algorithm,
        "seed": seed,
        "required": f">= {task.required}" if recurrent else f"<= {task.dqn_most}",
        "holds": fresh.mean >= task.required if recurrent else fresh.mean <= task.dqn_most,
        "steps": summary["environment_steps"],
        "learner_steps": summary["learner_steps"],
        "mean_return": summary["mean_return"],
        "fresh_mean": fresh.mean,
        "fresh_std": fresh.std,
    }


def main() -> int:
    """Runs one task and writes results/memory-TASK.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", required=True, choices=[task.environment for task in TASKS])
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--jobs", type=positive, default=1, help="runs at a time")
    options = parser.parse_args()
    (task,) = (task for task in TASKS if task.environment == options.only)
    cases = [(algorithm, seed) for algorithm in ("r2d2", "dqn") for seed in range(options.seeds)]
    with (
        Rows(f"memory-{Path(task.environment).name}") as rows,
        ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool,
    ):
        for record in pool.map(measure, [task] * len(cases), *zip(*cases, strict=True)):
            print(json.dumps(record), flush=True)
            rows.add(record)
    return int(not all(record["holds"] for record in rows.records))


if __name__ == "__main__":
    run(main)
