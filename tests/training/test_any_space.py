"""Whole small runs with observations that have parts, action masks, and actions with several dimensions."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Algorithm
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.algorithms.td3.config import TD3
from headrace.environments import make_batch
from headrace.errors import ConfigError
from headrace.networks.records import ILLEGAL, split
from headrace.report.display import QuietDisplay
from headrace.training import resume
from headrace.training.policy_use import export

from ..environments.walks import Crane
from . import conftest
from .conftest import SMALL, Train, tensors

TOY = "headrace.environments.toy"
DQN = dataclasses.replace(SMALL, hidden=(64,), n_step=1, discount=0.9, learning_rate=2e-3)
MLP = dataclasses.replace(DQN, network="mlp")
TD3_SMALL = TD3(hidden=(32,), critic_hidden=(32,), batch_size=32, replay_capacity=5_000, learning_starts=200)
A3C_SMALL = A3C(network="mlp", hidden=(32,))


def one_hot_lake() -> gymnasium.Env[Any, Any]:
    """FrozenLake whose observation is float32 [16], 1 at the agent's cell."""
    cells = np.eye(16, dtype=np.float32)
    space = gymnasium.spaces.Box(0.0, 1.0, (16,), np.float32)
    return gymnasium.wrappers.TransformObservation(gymnasium.make("FrozenLake-v1"), cells.__getitem__, space)


def start(train: Train, monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm, topology: str, **settings: Any) -> Any:
    monkeypatch.setattr(conftest, "SMALL", algorithm)
    return train(topology, **settings)


@pytest.mark.parametrize(
    ("algorithm", "topology", "precision"),
    [
        (DQN, "apex", "fp32"),
        (MLP, "apex", "int8"),
        (A3C_SMALL, "hogwild", "fp32"),
        pytest.param(MLP, "lock", "fp32", marks=pytest.mark.slow),
    ],
)
def test_no_masked_action_is_taken(
    train: Train, monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm, topology: str, precision: str
) -> None:
    """The maze raises if one is, in training as in evaluation."""
    if topology == "apex":
        apex = dataclasses.replace(conftest.TOPOLOGIES["apex"], precision=precision)
        monkeypatch.setitem(conftest.TOPOLOGIES, "apex", apex)
    result = start(train, monkeypatch, algorithm, topology, environment=f"{TOY}:Maze", steps=800)
    assert result.summary["learner_steps"] > 0
    assert not result.summary["exits"]


def test_learns_a_maze_with_masks(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    result = start(
        train,
        monkeypatch,
        MLP,
        "serial",
        environment=f"{TOY}:Maze",
        steps=12_000,
        final_evaluation_episodes=100,
    )
    assert result.summary["mean_return"] > 0.4  # 0.77 is the most, -5 to walk until the end


def test_learns_an_action_of_three_dimensions(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"learning_rate": 5e-3, "samples_per_step": 16.0}
    algorithm = dataclasses.replace(DQN, hidden=(128,), discount=0.0, loss="squared", **rates)
    environment = "headrace/Wheels-v0"
    result = start(
        train,
        monkeypatch,
        algorithm,
        "serial",
        environment=environment,
        steps=6_000,
        final_evaluation_episodes=20,
    )
    assert result.summary["mean_return"] > 12  # 15 is the most, 3.9 at random


@pytest.mark.slow
def test_learns_a_dict_action_with_masks(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crane raises for a masked action, in training as in evaluation."""
    rates = {"learning_rate": 5e-3, "samples_per_step": 16.0}
    algorithm = dataclasses.replace(DQN, hidden=(64,), discount=0.0, loss="squared", **rates)
    environment = f"{Crane.__module__}:Crane"
    result = start(
        train, monkeypatch, algorithm, "serial", environment=environment, steps=4_000, final_evaluation_episodes=20
    )
    assert result.summary["mean_return"] > 14  # 15 is the most, about 9 at random
    with pytest.raises(ConfigError, match="algorithm is dyna-q, and the environment's actions are multi-discrete: one"):
        start(train, monkeypatch, DynaQ(), "serial", environment=environment, name="refused", steps=10)


@pytest.mark.parametrize(
    ("environment", "algorithm"),
    [
        ("Blackjack-v1", DQN),
        (f"{TOY}:Maze", MLP),
        pytest.param("FrozenLake-v1", DQN, marks=pytest.mark.slow),
        pytest.param("headrace/Wheels-v0", DQN, marks=pytest.mark.slow),
        pytest.param(f"{TOY}:Goal", TD3_SMALL, marks=pytest.mark.slow),
    ],
)
def test_resume_equals_never_having_stopped(
    train: Train, monkeypatch: pytest.MonkeyPatch, environment: str, algorithm: Algorithm
) -> None:
    whole = start(train, monkeypatch, algorithm, "serial", environment=environment, name="whole", steps=601)
    half = start(train, monkeypatch, algorithm, "serial", environment=environment, name="half", steps=351)
    with half.run.open(half.path, writing=True) as run:
        resumed = resume(run, QuietDisplay(), steps=601)
        ours, theirs = tensors(whole), tensors(resumed)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_the_exported_policy_has_an_input_for_each_part(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    result = start(train, monkeypatch, DQN, "serial", environment=f"{TOY}:Maze", steps=300)
    path = tmp_path / "policy.onnx"
    with result.run.open(result.path) as run:
        assert export(run, path) < 1e-4
    session = onnxruntime.InferenceSession(path)
    inputs = {each.name: (each.type, each.shape) for each in session.get_inputs()}
    assert inputs == {
        "observation.image": ("tensor(uint8)", ["B", 5, 5, 3]),
        "observation.last": ("tensor(int64)", ["B"]),
        "action_mask": ("tensor(int8)", ["B", 4]),
    }
    batch = make_batch(f"{TOY}:Maze", 40, seed=0)
    parts = split(batch.start(), batch.spec.parts)
    (q,) = session.run(None, parts)
    np.testing.assert_array_equal(q == np.float32(ILLEGAL), parts["action_mask"] == 0)
    assert parts["action_mask"][np.arange(40), q.argmax(1)].all()


def test_a_discrete_observation_learns_as_its_one_hot_vector_does(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FrozenLake has 16 cells: the same parameters bit for bit."""
    records = start(train, monkeypatch, DQN, "serial", environment="FrozenLake-v1", name="records", steps=601)
    vectors = start(
        train, monkeypatch, DQN, "serial", environment=f"{__name__}:one_hot_lake", name="vectors", steps=601
    )
    ours, theirs = tensors(records), tensors(vectors)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
