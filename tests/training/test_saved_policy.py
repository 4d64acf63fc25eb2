"""Trained policies in Python: their actions are those of an evaluation, and wrong input is named."""

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import headrace
from headrace import DQN, SAC, errors
from headrace.algorithms.config import Algorithm
from headrace.environments import make
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training import SavedPolicy, export
from headrace.training.saved_policy import Interface, _ActionSpace
from headrace.types import EnvironmentSpec

from ..environments.walks import Crane

CORRIDOR = "headrace.environments.toy:Corridor"


def graph_of(algorithm: Algorithm, spec: EnvironmentSpec, weight: list[list[float]], precision: Precision) -> bytes:
    """A linear policy without a bias."""
    architecture = algorithm.architecture(spec)
    (head,) = architecture.heads[0]
    values = {f"{head.name}.weight": np.array(weight, np.float32), f"{head.name}.bias": np.zeros(head.outputs)}
    return PolicyGraph(architecture, precision).serialize(values)


def policy_of(
    spec: EnvironmentSpec, weight: list[list[float]], space: gymnasium.Space[Any], precision: Precision = "fp32"
) -> SavedPolicy:
    algorithm: Algorithm = SAC(hidden=()) if spec.continuous else DQN(hidden=())
    interface = Interface(spec, algorithm, _ActionSpace.of(space))
    return SavedPolicy(graph_of(algorithm, spec, weight, precision), interface)


@pytest.fixture
def rising() -> SavedPolicy:
    """Q values are the last two frames of one number: action 1 if the newer is larger. Actions start at 5."""
    spec = EnvironmentSpec((1,), "float32", 2, stack=2)
    return policy_of(spec, [[1.0, 0.0], [0.0, 1.0]], gymnasium.spaces.Discrete(2, start=5))


def test_frames_are_stacked_until_reset(rising: SavedPolicy) -> None:
    assert [rising.act([x]) for x in (3.0, 4.0, 2.0, 9.0)] == [5, 6, 5, 6]
    rising.reset()
    assert [rising.act([x]) for x in (10.0, 11.0)] == [5, 6]  # the first frame has none before it


def test_one_environment_of_a_batch_is_reset(rising: SavedPolicy) -> None:
    assert rising.act([[1.0], [1.0]]).tolist() == [5, 5]
    rising.reset([False, True])
    assert rising.act([[2.0], [2.0]]).tolist() == [6, 5]
    assert rising.act([[3.0], [3.0]]).tolist() == [6, 6]


def test_a_batch_of_another_size_requires_a_reset(rising: SavedPolicy) -> None:
    rising.act([[1.0], [1.0]])
    with pytest.raises(errors.ConfigError, match=r"observation has 3 environments; it must have 2"):
        rising.act([[1.0]] * 3)
    with pytest.raises(errors.ConfigError, match=r"ended is bool \[3\]; it must be bool \[2\]"):
        rising.reset([True] * 3)
    rising.reset()
    assert rising.act([[1.0]] * 3).shape == (3,)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_continuous_actions_have_the_environment_s_bounds_shape_and_dtype(precision: Precision) -> None:
    space = gymnasium.spaces.Box(np.array([[-2.0, 0.0]]), np.array([[2.0, 10.0]]), dtype=np.float64)
    spec = EnvironmentSpec((1,), "float32", 2, continuous=True)
    # SAC's outputs are means and sigmas' logarithms; its greedy action is tanh(mean)
    policy = policy_of(spec, [[1.0], [-1.0], [0.0], [0.0]], space, precision)
    action = policy.act([0.5])
    assert action.dtype == space.dtype
    assert action.shape == (1, 2)
    assert action[0].tolist() == pytest.approx([2 * np.tanh(0.5), 5 - 5 * np.tanh(0.5)], rel=1e-5)
    assert policy.act(np.zeros((3, 1), np.float32)).tolist() == [[[0.0, 5.0]]] * 3


@pytest.mark.parametrize(
    ("observation", "problem"),
    [
        (np.zeros(3), r"observation is of shape \[3\]; it must be of shape \[2\], or \[B, 2\]"),
        (np.zeros((0, 2)), r"of shape \[0, 2\]"),
        (np.zeros((1, 1, 2)), r"of shape \[1, 1, 2\]"),
        (np.zeros(2, np.complex64), r"of dtype complex64; it must be of dtype float32"),
        (np.array([0.0, np.nan]), "not finite"),
        ([1e300, 0.0], "not finite"),
        ([[1.0, 2.0], [3.0]], r"^observation is not an array \(.*\)$"),
    ],
)
def test_wrong_observations_are_named(observation: Any, problem: str) -> None:
    spec = EnvironmentSpec((2,), "float32", 2)
    policy = policy_of(spec, [[1.0, 0.0], [0.0, 1.0]], gymnasium.spaces.Discrete(2))
    with pytest.raises(errors.ConfigError, match=problem):
        policy.act(observation)
    assert policy.act([0.0, 1.0]) == 1


def test_integers_that_the_space_can_not_hold_are_refused() -> None:
    policy = policy_of(EnvironmentSpec((2,), "uint8", 2), [[1.0, 0.0], [0.0, 1.0]], gymnasium.spaces.Discrete(2))
    assert policy.act(np.array([0, 200], np.uint16)) == 1
    with pytest.raises(errors.ConfigError, match="observation is too large; it must be within uint8 in every"):
        policy.act(np.array([300, 0], np.uint16))


def play(policy: SavedPolicy, episodes: int) -> list[float]:
    environment = make(CORRIDOR)
    returns = []
    for _ in range(episodes):
        policy.reset()
        observation, _ = environment.reset()
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = environment.step(policy.act(observation))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def test_a_run_s_policy_and_its_exported_file_play_as_the_evaluation(train: Any, tmp_path: Path) -> None:
    result = train("serial", until_score=1.0, steps=20_000, evaluation_period_steps=1_000)
    assert play(headrace.load(result.path), 2) == result.evaluate(episodes=2).returns == [1.0, 1.0]
    file = tmp_path / "policy.onnx"
    for episodes in (0, 1.5, "3", float("nan"), 10**12):
        with pytest.raises(errors.ConfigError, match=rf"^episodes is '?{re.escape(str(episodes))}'?; it must be "):
            result.evaluate(episodes)
    with pytest.raises(errors.ConfigError, match=r"^seed is -1; it must be between 0 and "):
        result.evaluate(1, seed=-1)
    export(result.run, file)
    assert play(headrace.load(str(file)), 2) == [1.0, 1.0]
    with pytest.raises(errors.ConfigError, match=r"^file is .*policy.pt; it must be a path that ends in .onnx$"):
        export(result.run, tmp_path / "policy.pt")


@pytest.mark.parametrize(
    ("space", "action", "own"),
    [
        (gymnasium.spaces.MultiDiscrete([2, 3], start=[1, 0]), [1, 2], [2, 2]),
        (gymnasium.spaces.MultiBinary((2, 1)), [0, 1], [[0], [1]]),
    ],
)
def test_actions_of_several_dimensions_are_the_environment_s(
    space: gymnasium.Space[Any], action: list[int], own: list[Any]
) -> None:
    [found] = _ActionSpace.of(space).to_map().to_environment(np.array([action]))
    assert (found.tolist(), found.dtype) == (own, space.dtype)


def test_a_policy_of_observations_with_parts_takes_only_legal_actions(tmp_path: Path) -> None:
    maze = "headrace.environments.toy:Maze"
    algorithm = DQN(hidden=(8,), batch_size=8, learning_starts=20)
    run = headrace.train(
        maze, algorithm=algorithm, topology=headrace.Serial(), steps=60, run_dir=tmp_path / "run", quiet=True
    )
    policy, environment = headrace.load(run.path), make(maze)
    observation, info = environment.reset(seed=0)
    for _ in range(20):
        observation, *_, info = environment.step(policy.act(observation, info))  # which refuses illegal ones
    with pytest.raises(errors.EnvironmentFault, match="action_mask"):
        policy.act(observation)
    file = tmp_path / "policy.onnx"
    export(run.run, file)
    with pytest.raises(errors.CheckpointError, match="the run directory is required"):
        headrace.load(file)


def test_actions_of_a_dict_have_its_structure(tmp_path: Path) -> None:
    """With masks, in a run's policy: the environment refuses other actions."""
    name = f"{Crane.__module__}:Crane"
    algorithm = DQN(hidden=(8,), batch_size=8, learning_starts=20)
    run = headrace.train(
        name, algorithm=algorithm, topology=headrace.Serial(), steps=60, run_dir=tmp_path / "run", quiet=True
    )
    policy, environment = headrace.load(run.path), make(name)
    observation, info = environment.reset(seed=0)
    for _ in range(20):
        observation, *_, info = environment.step(policy.act(observation, info))
    assert export(run.run, tmp_path / "policy.onnx") < 1e-4


def test_a_file_s_actions_have_the_structure_of_the_space(tmp_path: Path) -> None:
    """The Q values of three dimensions are multiples of the observation x: 0 and -x; -x, 0 and x; x and 0."""
    space = gymnasium.spaces.Dict(
        grip=gymnasium.spaces.Discrete(2),
        move=gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3, start=-1), gymnasium.spaces.MultiBinary(1)]),
    )
    spec = EnvironmentSpec((1,), "float32", 7, branches=(2, 3, 2))
    algorithm = DQN(hidden=())
    graph = graph_of(algorithm, spec, [[0.0], [-1.0], [-1.0], [0.0], [1.0], [1.0], [0.0]], "fp32")
    path = tmp_path / "policy.onnx"
    path.write_bytes(Interface(spec, algorithm, _ActionSpace.of(space)).write(graph))
    policy = headrace.load(path)
    one = policy.act(np.array([1], np.float32))
    assert space.contains(one)
    assert (one["grip"], one["move"][0], one["move"][1].tolist()) == (0, 1, [0])
    both = policy.act(np.array([[1], [-1]], np.float32))
    assert gymnasium.vector.utils.batch_space(space, 2).contains(both)
    assert both["grip"].tolist() == [0, 1]
    assert both["move"][0].tolist() == [1, -1]
    assert both["move"][1].tolist() == [[0], [1]]


def test_what_is_no_policy_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(errors.CheckpointError, match="is not a run directory"):
            headrace.load(path)
    with pytest.raises(errors.CheckpointError, match=r"^/dev/null is neither a run directory nor an \.onnx file$"):
        headrace.load("/dev/null")
    text = tmp_path / "policy.onnx"
    text.write_text("no graph")
    with pytest.raises(errors.CheckpointError, match=r"policy\.onnx is not an ONNX file"):
        headrace.load(text)
    text.write_bytes(graph_of(DQN(hidden=()), EnvironmentSpec((1,), "float32", 1), [[1.0]], "fp32"))
    with pytest.raises(errors.CheckpointError, match="has no metadata 'headrace'"):
        headrace.load(text)


def test_a_place_that_can_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)  # a folder above without the right to search it; root has all rights
    with pytest.raises(errors.StorageError, match=r"can't read .*: Permission denied$"):
        headrace.load(tmp_path / "run")
    with pytest.raises(errors.StorageError, match=r"can't write .*: Permission denied$"):
        RunDirectory.create(tmp_path / "run", "{}")


def test_a_run_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    config = RunConfig(CORRIDOR, DQN(), headrace.Serial(), steps=1)
    with (
        RunDirectory.create(tmp_path / "run", config.to_json()) as run,
        pytest.raises(errors.CheckpointError, match="holds no checkpoint"),
    ):
        headrace.load(run.path)


def test_folders_above_a_run_can_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(
        errors.ConfigError, match=r"^run directory is '.*udcf6n/run'; it must be a path that can be printed"
    ):
        RunDirectory.create(tmp_path / "gr\udcf6n" / "run", "{}")
