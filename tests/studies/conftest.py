"""Records of cases, made by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.gradients.measured import STALENESS
from headrace.roles.clock import ACTOR_PHASES
from headrace.roles.clock import LEARNER_PHASES as LEARNER_TIMES
from headrace.studies.actorq.training import figures_of, training_case
from headrace.studies.base import Measured, Study
from headrace.studies.downpour import training as downpour
from headrace.studies.downpour.training import TrainingCase
from headrace.studies.in_network.case import LEARNER_PHASES, Case
from headrace.studies.in_network.measure import Record
from headrace.studies.results import Origin
from headrace.topologies.serial import Serial


@pytest.fixture
def record():
    """A record of 2 updates in 2 s and of one actor's 100 steps in 1 s; what matters to a test is given."""

    def make(case: Case, updates: dict[str, list[float]], actor: dict[str, Any] | None = None, **fields: Any) -> Record:
        learner = {
            "seconds": 2.0,
            "updates": {phase: updates.get(phase, [0.0, 0.0]) for phase in LEARNER_PHASES},
            "parameter_bytes": 13_000_000,
            "pull": {"transitions": 25_000.0, "wire_bytes": 2e8},
        }
        acted = {
            "seconds": 1.0,
            "phases": dict.fromkeys(ACTOR_PHASES, 0.0) | {"environment": 0.8, "push": 0.15, "pull": 0.05},
            "steps": 100,
            "push_seconds": [0.05, 0.1],
            "pull_seconds": [0.05],
            "pushed_bytes": 800_000,
            "pushed_transitions": 100,
            "all_transitions": 200,
        }
        values: dict[str, Any] = {"server_cpu_seconds": 0.25, "sent": {}, "actors_sent_bytes": 0, "redis_client": None}
        return Record(case, learner, [acted | (actor or {})], **(values | fields))

    return make


@pytest.fixture
def case():
    """A case over loopback with one actor; fields that matter to a test are given."""

    def make(variant: str = "server", **fields: Any) -> Case:
        values: dict[str, Any] = {
            "transport": "loopback", "actors": 1, "kind": "synthetic", "batch_size": 8, "seconds": 1.0,
        }  # fmt: skip
        return Case(variant, **(values | fields))

    return make


@pytest.fixture
def origin() -> Origin:
    """Where a row might come from."""
    return Origin("headrace study in-network", "0123456789ab", "2026-01-02 03:04", "a machine", 2)


@pytest.fixture
def training_rows():
    """The rows of one run of cartpole-balance, from (environment steps, seconds, score) of its evaluations."""

    def make(precision: str, seed: int, evaluations: list[tuple[int, float, float]]):
        case = training_case("cartpole-balance", precision, seed, "cpu")
        steps, seconds, score = evaluations[-1]
        summary = {
            "algorithm": "d4pg",
            "mean_return": score,
            "std_return": 1.0,
            "evaluation_episodes": 100,
            "environment_steps": steps,
            "learner_steps": 10,
            "wall_seconds": seconds,
            "staleness": 3.0,
            "samples_per_insert": 4.0,
            "actor_times": dict.fromkeys(ACTOR_PHASES, 0.0) | {"environment": 2.0, "inference": 2.0},
            "learner_times": dict.fromkeys(LEARNER_TIMES, 0.0) | {"train": 3.0, "wait": 1.0},
            "stopped_by": "steps",
        }
        records = [
            {"kind": "evaluation", "environment_steps": steps, "seconds": seconds, "mean_return": score,
             "std_return": 1.0, "episodes": 10}
            for steps, seconds, score in evaluations
        ]  # fmt: skip
        return figures_of(case, summary, records)

    return make


@pytest.fixture
def downpour_run():
    """The rows of one run of 1,000 steps and 100 updates: in 10 s serial, 10 updates/s; with workers in 5 s, 30.

    Of the workers' gradients 60 are 0 behind, 30 are 1, and 10 so many that they are dropped.
    """

    def make(case: TrainingCase, score: float) -> Measured:
        serial = isinstance(case.topology, Serial)
        staleness = dict.fromkeys(STALENESS, 0) | {"0": 60, "1": 30, "32+": 10}
        workers = {"staleness": staleness, "accepted": 90, "dropped": 10, "refused": 0}
        summary = {
            "topology": "serial" if serial else "parameter-server",
            "samples_per_insert": 16.0,
            "environment_steps": 1000,
            "learner_steps": 100,
            "wall_seconds": 10.0 if serial else 5.0,
            "mean_return": score,
            "std_return": 1.0,
            "evaluation_episodes": 100,
            "staleness": 4.0,
            "workers": None if serial else workers,
            "stopped_by": "steps",
        }
        rate = 10 if serial else 30
        progress = [
            {"kind": "progress", "seconds": at, "learner_steps": max(0, at - 2) * rate} for at in (1.0, 2.0, 3.0, 4.0)
        ]
        evaluations = [
            {"kind": "evaluation", "environment_steps": steps, "seconds": steps / 100, "mean_return": score,
             "std_return": 1.0, "episodes": 9}
            for steps in (500, 1000)
        ]  # fmt: skip
        records = [*progress, *evaluations]
        return downpour.figures_of(case, summary, records)

    return make


@pytest.fixture
def stand_in(monkeypatch):
    """Puts functions of a case in the place of a study's measurements, by the names of its parts."""

    def put(study: type[Study], **measures: Callable[[Any], Any]) -> Study:
        def measured(measure: Callable[[Any], Any]) -> Callable[[Any, Path], Measured]:
            def call(case: Any, folder: Path) -> Measured:
                found = measure(case)
                return found if isinstance(found, Measured) else Measured(found)

            return call

        parts = tuple(
            replace(part, measure=measured(measures[part.name])) if part.name in measures else part
            for part in study.parts
        )
        monkeypatch.setattr(study, "parts", parts)
        return study()

    return put
