"""One training run of one system, to a score, in this process; time_to_score starts one of these for each run.

python -m benchmarks.contenders SYSTEM ENVIRONMENT SEED SCORE TIME_LIMIT PERIOD FOLDER

Writes outcome.json into the folder.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.outcome import CONFIRMATION_EPISODES, FRESH_SEED, PERIODIC_EPISODES, Outcome, Rule, train


def run_headrace(environment: str, seed: int, rule: Rule) -> Outcome:
    """Headrace with defaults: the environment's preset, Ape-X, this machine's number of actors."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            environment,
            until_score=rule.score,
            time_limit_seconds=rule.most_seconds,
            seed=seed,
            evaluation_period_seconds=rule.period_seconds,
            evaluation_episodes=PERIODIC_EPISODES,
            run_dir=Path(folder) / "run",
        )
        fresh = result.evaluate(CONFIRMATION_EPISODES, seed=FRESH_SEED + seed)
    summary = result.summary
    return Outcome(
        summary["seconds_to_score"],
        summary["steps_to_score"],
        summary["environment_steps"],
        summary["learner_steps"],
        summary["wall_seconds"],
        summary["mean_return"],
        fresh.mean,
        fresh.std,
        f"preset, {summary['topology']}",
    )


def main() -> None:
    """Runs what the arguments say."""
    system, environment, seed, score, time_limit, period, folder = sys.argv[1:]
    rule = Rule(float(score), float(time_limit), period_seconds=float(period))
    if system == "headrace":
        outcome = run_headrace(environment, int(seed), rule)
    else:
        from benchmarks import sb3

        outcome = sb3.run(environment, "dqn", int(seed), rule)
    (Path(folder) / "outcome.json").write_text(json.dumps(outcome._asdict()))


if __name__ == "__main__":
    main()
