"""One training run of one system, to a score, in this process; time_to_score starts one of these for each run.

python -m benchmarks.contenders SYSTEM ENVIRONMENT SEED SCORE TIME_LIMIT OUTCOME_FILE
"""

import json
import sys
import tempfile
from pathlib import Path

import headrace
from benchmarks.outcome import (
    CONFIRMATION_EPISODES,
    EVALUATION_PERIOD_SECONDS,
    FRESH_SEED,
    PERIODIC_EPISODES,
    Outcome,
)


def run_headrace(environment: str, seed: int, score: float, time_limit_seconds: float) -> Outcome:
    """Headrace with defaults: the environment's preset, Ape-X, this machine's number of actors."""
    with tempfile.TemporaryDirectory() as folder:
        result = headrace.train(
            environment,
            until_score=score,
            time_limit_seconds=time_limit_seconds,
            seed=seed,
            evaluation_period_seconds=EVALUATION_PERIOD_SECONDS,
            evaluation_episodes=PERIODIC_EPISODES,
            run_dir=Path(folder) / "run",
            quiet=True,
        )
        fresh = result.evaluate(CONFIRMATION_EPISODES, seed=FRESH_SEED + seed)
    summary = result.summary
    steps, mean = summary["environment_steps"], summary["mean_return"]
    return Outcome(summary["seconds_to_score"], steps, mean, fresh.mean, f"preset, {summary['topology']}")


def main() -> None:
    """Runs what the arguments say, and writes the outcome as JSON."""
    system, environment, seed, score, time_limit, path = sys.argv[1:]
    if system == "headrace":
        run = run_headrace
    else:
        from benchmarks.sb3_dqn import run_sb3 as run
    outcome = run(environment, int(seed), float(score), float(time_limit))
    Path(path).write_text(json.dumps(outcome._asdict()))


if __name__ == "__main__":
    main()
