"""What every registered algorithm must do in every kind of action space that it takes."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.actor_critic import ActorCritic
from headrace.algorithms.config import Algorithm
from headrace.algorithms.registry import ALGORITHMS
from headrace.environments import describe
from headrace.errors import ConfigError
from headrace.gradients.base import ParameterVector
from headrace.gradients.local import LocalVector
from headrace.networks.records import draw_records, split
from headrace.types import Array, EnvironmentSpec

SPACES = {
    "discrete": EnvironmentSpec((3,), "float32", 3),
    "multi-discrete": EnvironmentSpec((3,), "float32", 7, branches=(3, 4)),
    "continuous": EnvironmentSpec((3,), "float32", 2, continuous=True),
}
"""Kinds of action spaces."""
CASES = [(name, kind) for name, known in ALGORITHMS.known().items() for kind in known.action_kinds]
ENVIRONMENTS = 64


def make(name: str) -> Algorithm:
    kind = ALGORITHMS.find(name)
    return kind(hidden=(8,))


def outputs(algorithm: Algorithm, spec: EnvironmentSpec, observation: Array) -> NDArray[np.float32]:
    """What a new policy returns for observations; one with a memory begins."""
    updater = algorithm.make_updater(spec, "cpu", 0)
    memory = algorithm.replay.make_memory(updater) if algorithm.replay is not None else None
    if memory is not None:
        memory.start(len(observation))
        return memory.output(observation)
    return updater.act(observation)


def require_possible(action: Array, spec: EnvironmentSpec) -> None:
    """Actions of this space, in the form that environments take."""
    if spec.continuous:
        assert (action.shape, action.dtype) == ((ENVIRONMENTS, spec.actions), np.float32)
        assert (np.abs(action) <= 1).all()
        return
    assert action.dtype.kind == "i"
    assert action.shape == ((ENVIRONMENTS, len(spec.branches)) if spec.branches else (ENVIRONMENTS,))
    assert (action >= 0).all()
    assert (action < np.array(spec.branches or spec.actions)).all()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_greedy_and_exploring_actions_are_possible(name: str, kind: str) -> None:
    algorithm, spec = make(name), SPACES[kind]
    algorithm.require_spaces(spec)
    output = outputs(algorithm, spec, np.random.default_rng(0).standard_normal((ENVIRONMENTS, 3)).astype(np.float32))
    require_possible(algorithm.greedy(output, spec), spec)
    if algorithm.replay is not None:
        exploration = algorithm.replay.make_exploration([1.0] * ENVIRONMENTS, 0, spec)
        require_possible(exploration.choose(output), spec)


@pytest.mark.parametrize(("shape", "stack"), [((84, 84), 1), ((84, 84, 3), 4), ((3, 9, 9), 1)])
@pytest.mark.parametrize("name", [name for name in ALGORITHMS.known() if isinstance(make(name), ActorCritic)])
def test_critics_take_images_only_if_an_mlp_flattens_them(name: str, shape: tuple[int, ...], stack: int) -> None:
    spec = EnvironmentSpec(shape, "uint8", 2, stack, continuous=True)
    with pytest.raises(ConfigError, match="it must be mlp, which flattens images"):
        make(name).require_spaces(spec)
    dataclasses.replace(make(name), network="mlp").require_spaces(spec)


@pytest.mark.parametrize("name", ALGORITHMS.known())
def test_masked_actions_are_never_taken(name: str) -> None:
    algorithm, spec = make(name), describe("Taxi-v4")
    takes = "discrete" in algorithm.action_kinds and algorithm.architecture(spec).head.masked
    assert takes or name not in ("dqn", "a3c", "r2d2")
    if not takes or algorithm.world_model is not None:
        with pytest.raises(ConfigError):
            algorithm.require_spaces(spec)
        return
    observation = draw_records(np.random.default_rng(0), ENVIRONMENTS, spec.observation_shape[0], spec.parts)
    legal = split(observation, spec.parts)[spec.parts[-1].name] != 0
    output = outputs(algorithm, spec, observation)
    actions = [algorithm.greedy(output, spec)]
    if algorithm.replay is not None:
        actions.append(algorithm.replay.make_exploration([1.0] * ENVIRONMENTS, 0, spec).choose(output))
    if algorithm.rollouts is not None:
        policy = algorithm.rollouts.rollout_policy(algorithm.make_updater(spec, "cpu", 0))
        actions.append(policy.sample(observation, np.random.default_rng(0)))
    assert all(legal[np.arange(ENVIRONMENTS), action].all() for action in actions)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_workers_can_share_its_parameters(name: str, kind: str) -> None:
    """Its updater asks for the vectors of its parameters."""
    opened: list[Any] = []

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        opened.append(LocalVector(initial, options))
        return opened[-1]  # type: ignore[no-any-return]

    updater = make(name).make_updater(SPACES[kind], "cpu", 0, open_vector)
    assert opened
    assert updater.version == 0
