"""Measures how long the learner of a warm Ape-X run waits for batches if the limiter does not block it."""

import dataclasses
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, at_most, make_parser, report, require, run

_ENVIRONMENT = "LunarLander-v3"
_SECONDS = 40.0
_WARM_SECONDS = 10.0
_SAMPLES_PER_STEP = 32.0  # twice the preset's: the run is then learner-bound, and the limiter blocks the actors


def _progress() -> list[dict[str, Any]]:
    """Trains; returns the snapshots of the run after its warm-up."""
    import headrace
    from headrace.settings import preset

    dqn = preset(_ENVIRONMENT).algorithm.replay
    assert dqn is not None
    algorithm = dataclasses.replace(dqn, samples_per_step=_SAMPLES_PER_STEP)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        headrace.train(
            _ENVIRONMENT,
            algorithm=algorithm,
            time_limit_seconds=_SECONDS,
            evaluation_period_seconds=10 * _SECONDS,
            final_evaluation_episodes=0,
            run_dir=path,
            quiet=True,
        )
        records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == "progress" and record["seconds"] >= _WARM_SECONDS]


def measure_learner_wait() -> list[Row]:
    """Share of the learner's time, and the rates of the run."""
    progress = _progress()

    def mean(read: Any) -> float:
        return statistics.fmean(read(record) for record in progress)

    wait = mean(lambda record: record["learner_times"]["wait"])
    blocked = mean(lambda record: record["actor_times"]["blocked"])
    return [
        at_most("learner's wait for batches", "%", 100 * wait, 5),
        Row("actors' wait for the limiter and the server", "%", 100 * blocked),
        Row("learner", "updates/s", mean(lambda record: record["learner_steps_per_second"])),
        Row("actors", "steps/s", mean(lambda record: record["steps_per_second"])),
    ]


def main() -> int:
    """Measures, prints and writes results/learner_wait.csv; returns status 1 if the requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace", "Box2D")
    return report("learner_wait", measure_learner_wait())


if __name__ == "__main__":
    run(main)
