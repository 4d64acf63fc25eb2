"""Whole small runs of R2D2, the roles as threads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import R2D2, Apex
from headrace.environments import describe, make
from headrace.errors import ConfigError
from headrace.replay import Table
from headrace.report.display import QuietDisplay
from headrace.roles.actor import ActorSettings
from headrace.roles.worker import ReplayWorker
from headrace.training import export, resume

from . import conftest
from .conftest import Train, tensors

SHORT = "headrace/TMazeShort-v0"
SMALL = R2D2(
    hidden=(16,),
    memory=16,
    burn_in=3,
    learned_steps=6,
    batch_size=8,
    learning_starts=20,
    replay_capacity=2_000,
    samples_per_step=4.0,
    target_update_period=50,
    epsilon_decay_steps=1_000,
    publish_period=5,
)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_resume_equals_never_having_stopped(train: Train, cell: str) -> None:
    algorithm = R2D2.from_record({**SMALL.to_record(), "cell": cell})
    settings: dict[str, Any] = {"environment": SHORT, "algorithm": algorithm, "final_evaluation_episodes": 3}
    whole = train("serial", name="whole", steps=601, **settings)
    half = train("serial", name="half", steps=301, **settings)
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=601)
        ours, theirs = tensors(whole), tensors(resumed)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert resumed.summary["learner_steps"] > half.summary["learner_steps"]
    for field in ("environment_steps", "learner_steps", "episodes", "mean_return", "samples_per_insert"):
        assert resumed.summary[field] == whole.summary[field]


def test_apex_trains_evaluates_and_exports(train: Train, tmp_path: Path) -> None:
    result = train("apex", environment=SHORT, algorithm=SMALL, steps=800, final_evaluation_episodes=2)
    assert result.summary["learner_steps"] > 20
    assert len(result.evaluate(episodes=25).returns) == 25
    assert export(result.run, tmp_path / "policy.onnx") < 1e-5


@pytest.mark.parametrize("topology", ["lock", "hogwild", "ad-psgd", "parameter-server"])
def test_topologies_of_workers_are_refused(train: Train, topology: str) -> None:
    with pytest.raises(ConfigError, match=f"algorithm is r2d2, and topology is {topology}.*apex or serial is required"):
        train(topology, environment=SHORT, algorithm=SMALL, steps=100)


@pytest.mark.parametrize(("field", "value"), [("precision", "int8"), ("precision", "auto"), ("communication_bits", 8)])
def test_quantized_actors_are_refused(train: Train, monkeypatch: pytest.MonkeyPatch, field: str, value: Any) -> None:
    monkeypatch.setitem(conftest.TOPOLOGIES, "apex", Apex(actors=1, **{field: value}))
    with pytest.raises(ConfigError, match=f"{field} is {value}.*recurrent policy acts in fp32"):
        train("apex", environment=SHORT, algorithm=SMALL, steps=100)


def test_parts_and_masks_and_a_policy_that_remembers(train: Train, tmp_path: Path) -> None:
    maze = "headrace.environments.toy:Maze"
    run = train("serial", environment=maze, algorithm=SMALL, steps=600, final_evaluation_episodes=2)
    assert run.summary["learner_steps"] > 0
    policy, environment = headrace.load(run.path), make(maze)
    observation, info = environment.reset(seed=0)
    for _ in range(20):
        observation, *_, info = environment.step(policy.act(observation, info))  # which refuses illegal actions
    export(run.run, tmp_path / "policy.onnx")


LEARNING = R2D2(
    hidden=(16,),
    memory=16,
    burn_in=2,
    learned_steps=8,
    discount=0.9,
    learning_rate=5e-3,
    samples_per_step=64.0,
    target_update_period=50,
    epsilon_decay_steps=3_000,
)


def test_learns_to_remember_the_cue(train: Train) -> None:
    """Chance is 0.5, and so is the best policy without memory."""
    result = train(
        "serial",
        environment=SHORT,
        algorithm=LEARNING,
        steps=12_000,
        until_score=0.95,
        evaluation_period_steps=1_000,
        final_evaluation_episodes=100,
    )
    assert result.summary["solved"]
    assert result.evaluate(episodes=100, seed=77).mean >= 0.95


def test_it_resumes_after_an_environment_s_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second environment raises in a step with which a window begins."""
    spec = describe(SHORT)
    updater = SMALL.make_updater(spec, "cpu", 0)
    settings = ActorSettings(SHORT, 0, 0, (0.0, 0.0), SMALL, 1, spec)

    def start() -> ReplayWorker:
        return ReplayWorker(settings, SMALL, updater, Table(SMALL.table_form(spec, 1).signature, min_size=10_000))

    def fail(action: Any) -> Any:
        raise RuntimeError("failed")

    worker = start()
    for _ in range(3):
        worker.step()
    memory = worker.state()["actor"]["memory"]
    environments = worker._actor.environments
    monkeypatch.setattr(environments, "_step_functions", [environments._step_functions[0], fail])
    with pytest.raises(RuntimeError, match="failed"):
        worker.step()
    state = worker.state()
    assert state["actor"]["memory"] == memory
    worker.close()
    worker = start()
    worker.restore(state)
    for _ in range(40):  # to the ends of episodes, whose windows need the states from before
        worker.step()
    worker.close()
