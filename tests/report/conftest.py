"""Snapshots, for the tests of this folder."""

from typing import Any

import pytest

from headrace.report.progress import Progress


@pytest.fixture
def progress():
    """Makes a snapshot; fields that matter to a test are given."""

    def make(**fields: Any) -> Progress:
        values: dict[str, Any] = {
            "seconds": 65.0,
            "environment_steps": 123_000,
            "learner_steps": 8_000,
            "episodes": 450,
            "mean_return": 15.04,
            "near_greedy_return": 100.0,
            "evaluation_return": 75.0,
            "best_evaluation": 210.4,
            "steps_per_second": 4213.4,
            "learner_steps_per_second": 312.3,
            "samples_per_insert": 15.98,
            "staleness": 2.34,
            "loss": 0.01234,
            "replay_size": 98_000,
            "replay_capacity": 100_000,
            "replay_bytes": 12_345_678,
            "policy_version": 400,
            "bottleneck": "learner",
            "actor_times": {
                "environment": 0.6,
                "inference": 0.2,
                "pull": 0.05,
                "load": 0.05,
                "push": 0.05,
                "other": 0.05,
            },
            "learner_times": {
                "train": 0.7,
                "wait": 0.05,
                "transfer": 0.1,
                "priorities": 0.05,
                "publish": 0.05,
                "other": 0.05,
            },
            "actors_alive": 2,
            "actors_total": 2,
        }
        return Progress(**(values | fields))

    return make
