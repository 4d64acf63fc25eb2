"""Vectorized environments against a loop over the same ones; their checks; their state."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from headrace.environments import EnvironmentBatch, make_batch
from headrace.environments.batch import SingleEnvironments
from headrace.environments.toy import Corridor, NanObservation
from headrace.environments.vector import VectorEnvironments
from headrace.errors import CheckpointError, ConfigError, EnvironmentFault
from headrace.networks.records import split
from headrace.types import Array, EnvironmentStep

from .walks import MODES, Walk, restart_numbers, vectorized

E = 5
NAMES = [mode.value for mode in MODES]


def make(mode: AutoresetMode, kind: Any = Walk, count: int = E, **settings: Any) -> VectorEnvironments:
    restart_numbers()
    return VectorEnvironments("walks", count, lambda seed: vectorized(count, mode, kind), seed=1, **settings)


def loop(count: int = E) -> EnvironmentBatch:
    restart_numbers()
    return SingleEnvironments(f"{Walk.__module__}:Walk", count, seed=1)


def choose(batch: EnvironmentBatch, inputs: Array, taken: list[int]) -> Array:
    """A legal action for each environment, which depends on its number and on how many it took."""
    masks = split(inputs, batch.spec.parts)["action_mask"]
    legal = [np.flatnonzero(mask) for mask in masks]
    return np.array([each[(7 * index + taken[index] // 3) % len(each)] for index, each in enumerate(legal)])


def play(batch: EnvironmentBatch, steps: int) -> tuple[list[list[Any]], list[Any]]:
    """Each environment's transitions, and its episodes, which end with the first observation of the next one."""
    inputs, taken = batch.start(), [0] * len(batch)
    transitions: list[list[Any]] = [[] for _ in range(len(batch))]
    while min(taken) <= steps:
        actions = choose(batch, inputs, taken)
        step = batch.step(actions)
        for index, action in enumerate(actions.tolist()):
            if step.skipped is not None and step.skipped[index]:
                transitions[index][-1].append(step.next_start[index].tolist())
                continue
            taken[index] += 1
            ended = bool(step.terminated[index] or step.truncated[index])
            row = [inputs[index].tolist(), action, float(step.reward[index]), step.observation[index].tolist()]
            row += [bool(step.terminated[index]), bool(step.truncated[index])]
            if not ended or step.skipped is None:
                row.append(step.next_start[index].tolist())
            transitions[index].append(row)
        inputs = step.next_start
    episodes = sorted(batch.take_episodes())
    return [rows[:steps] for rows in transitions], [
        [episode for episode in episodes if episode.environment == index][:10] for index in range(len(batch))
    ]


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_transitions_equal_those_of_single_environments(mode: AutoresetMode) -> None:
    """Masks, final observations and first ones, in every mode; the environment raises for an illegal action."""
    transitions, episodes = play(loop(), 60)
    ours, finished = play(make(mode), 60)
    assert ours == transitions
    assert finished == episodes
    ends = {(row[4], row[5]) for rows in transitions for row in rows}
    assert ends == {(False, False), (True, False), (False, True)}


def test_a_reset_of_the_next_step_is_no_transition() -> None:
    """Corridor of 8 cells: the goal is reached by step 7, and step 8 is the reset."""
    batch = make(AutoresetMode.NEXT_STEP, Corridor, 2)
    batch.start()
    steps = [batch.step(np.array([1, 0])) for _ in range(9)]
    assert [step.terminated.tolist() for step in steps[6:8]] == [[True, False], [False, False]]
    assert [step.skipped.tolist() for step in steps if step.skipped is not None] == [
        *[[False, False]] * 7,
        [True, False],
        [False, False],
    ]
    assert [step.taken for step in steps[6:]] == [2, 1, 2]
    assert steps[7].began.tolist() == [True, False]
    assert steps[6].observation[0].argmax() == 7
    assert [step.next_start[0].argmax() for step in steps[6:]] == [7, 0, 1]
    (episode,) = batch.take_episodes()
    assert episode == (0, 1.0, 7, True)
    assert batch.episodes == 1


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_an_episode_that_is_truncated_does_not_terminate(mode: AutoresetMode) -> None:
    batch = make(mode, Corridor, 1)
    batch.start()
    steps = [batch.step(np.array([0])) for _ in range(40)]
    assert (steps[-1].terminated[0], steps[-1].truncated[0]) == (False, True)
    assert batch.take_episodes() == [(0, 0.0, 40, False)]


def test_rewards_are_clipped_and_returns_are_not() -> None:
    batch = make(AutoresetMode.SAME_STEP, count=1, clip_rewards=True)
    batch.start()
    steps = [batch.step(np.array([action])) for action in (2, 1, 2, 1)]  # places 2, 2, 3, 3
    assert {float(step.reward[0]) for step in steps} == {1.0}
    batch.step(np.array([0]))  # to place 2; it is truncated
    assert [episode.return_ for episode in batch.take_episodes()] == [12.0]


def test_a_restored_batch_begins_new_episodes_with_another_seed() -> None:
    first = make_batch("vector/CartPole-v1", 3, seed=9, first_index=2)
    begun = first.start()
    for _ in range(60):
        first.step(np.ones(3, np.int64))
    state = json.loads(json.dumps(first.state()))
    second = make_batch("vector/CartPole-v1", 3, seed=9, first_index=2)
    opened = second.restore(state)
    frames = np.concatenate([episode.frames for episode in opened])
    assert {(episode.frames.shape, episode.action.shape, episode.reward.shape) for episode in opened} == {
        ((1, 4), (0,), (0,))
    }
    assert (np.abs(frames) <= 0.05).all()
    assert not np.array_equal(frames, begun)
    assert second.episodes == first.episodes > 3
    assert second.take_episodes() == []
    second.step(np.ones(3, np.int64))
    assert second.state()["starts"] == 1
    with pytest.raises(CheckpointError, match="first_index is 3 in the checkpoint; 2 is required"):
        second.restore({**state, "first_index": 3})


def test_the_same_seed_gives_the_same_steps() -> None:
    def run(seed: int, first: int) -> list[EnvironmentStep]:
        batch = make_batch("vector/CartPole-v1", 4, seed=seed, first_index=first)
        batch.start()
        return [batch.step(np.ones(4, np.int64)) for _ in range(30)]

    ours, again, other, seeded = run(3, 0), run(3, 0), run(3, 4), run(4, 0)
    assert all(np.array_equal(one.observation, two.observation) for one, two in zip(ours, again, strict=True))
    assert not np.array_equal(ours[0].observation, other[0].observation)
    assert not np.array_equal(ours[0].observation, seeded[0].observation)


class Scripted(VectorEnv[Any, Any, Any]):
    """Two environments whose step gives what the test says."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, **results: Any) -> None:
        self.num_envs = 2
        self.single_observation_space = spaces.Box(-1, 1, (3,))
        self.single_action_space = spaces.Box(-2, 2, (1,))
        flags = np.zeros(2, np.bool_)
        given = {"observation": np.zeros((2, 3)), "reward": np.zeros(2), "terminated": flags, "truncated": flags}
        self.result = (*{**given, **results}.values(), {})
        self.actions: Array | None = None

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        return np.zeros((2, 3), np.float32), {}

    def step(self, actions: Array) -> Any:
        self.actions = actions
        return self.result


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ({"reward": np.array([0, np.nan])}, "index 5, episode 0, step 1: reward is nan; a finite float32 is required"),
        ({"reward": np.zeros(3)}, r"indexes 4 to 5: reward is float64 \(3,\); numbers \(2,\) are required"),
        ({"observation": np.zeros((2, 4))}, r"observation has shape \(2, 4\); \(2, 3\) is required by its space"),
        ({"observation": (np.zeros((2, 3)), {})}, r"observation is \(array\(.*; an array is required"),
        ({"reward": ([0], 1)}, r"reward is \(\[0\], 1\); an array is required"),
        ({"observation": np.full((2, 3), "a")}, "observation has dtype str32; its space declares float32"),
        ({"observation": np.full((2, 3), 1e39)}, r"observation\[0, 0\] is 1e\+39; its space declares float32"),
        ({"observation": np.array([[0, 0, 0], [0, np.inf, 0]])}, r"index 5, .*: observation\[1\] is inf; every value"),
    ],
)
def test_results_are_checked(results: dict[str, Any], problem: str) -> None:
    batch = VectorEnvironments("scripted", 2, lambda seed: Scripted(**results), seed=0, first_index=4)
    batch.start()
    with pytest.raises(EnvironmentFault, match=f'environment "scripted", .*{problem}'):
        batch.step(np.zeros((2, 1), np.float32))


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ([0, 3], r"index 5, episode 0, step 1: .*kind.* is 3; 0 to 2 is required"),
        (3, r"observation\['kind'\] "),
        ([0], r"observation\['kind'\] "),
    ],
)
def test_a_part_of_an_observation_is_checked(kind: Any, problem: str) -> None:
    class Parts(Scripted):
        def __init__(self) -> None:
            super().__init__(observation={"kind": kind})
            self.single_observation_space = spaces.Dict(kind=spaces.Discrete(3))

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return {"kind": np.zeros(2, np.int64)}, {}

    batch = VectorEnvironments("parts", 2, lambda seed: Parts(), seed=0, first_index=4)
    batch.start()
    with pytest.raises(EnvironmentFault, match=problem):
        batch.step(np.zeros((2, 1), np.float32))


def test_termination_takes_precedence_over_truncation() -> None:
    ends, cuts = np.array([True, False]), np.array([True, True])
    batch = VectorEnvironments("scripted", 2, lambda seed: Scripted(terminated=ends, truncated=cuts), seed=0)
    batch.start()
    step = batch.step(np.zeros((2, 1), np.float32))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True, False], [False, True])
    assert [episode.terminated for episode in batch.take_episodes()] == [True, False]
    resets = batch.step(np.zeros((2, 1), np.float32))  # ends that a step of resets reports are not its own
    assert not (resets.terminated | resets.truncated).any()
    assert batch.take_episodes() == []


def test_continuous_actions_are_scaled_and_checked() -> None:
    vector = Scripted()
    batch = VectorEnvironments("scripted", 2, lambda seed: vector, seed=0)
    batch.step(np.array([[1], [-0.25]], np.float32))
    assert vector.actions is not None
    assert (vector.actions.tolist(), vector.actions.dtype) == ([[2.0], [-0.5]], np.float32)
    with pytest.raises(EnvironmentFault, match=r"index 1, .*: the policy's next action\[0\] is nan"):
        batch.step(np.array([[1], [np.nan]], np.float32))


def test_a_mode_that_is_missing_is_one_line() -> None:
    vector = Scripted()
    vector.metadata = {}
    with pytest.raises(EnvironmentFault, match=r'metadata\["autoreset_mode"\] is None; one of'):
        VectorEnvironments("scripted", 2, lambda seed: vector, seed=0)


def test_an_error_says_where_it_was_raised() -> None:
    batch = make(AutoresetMode.NEXT_STEP, first_index=2)
    batch.start()
    with pytest.raises(AssertionError) as caught:
        batch.step(np.full(E, 2))  # environment 1, at place 2, may not stay
    assert caught.value.__notes__ == ['raised by environment "walks", indexes 2 to 6']


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_a_mask_without_a_legal_action_names_its_environment(mode: AutoresetMode) -> None:
    class Stuck(Walk):
        def _observe(self) -> Any:
            observation, info = super()._observe()
            if self.number == 2 and self.steps == 2:
                info["action_mask"][:] = 0
            return observation, info

    batch = make(mode, Stuck)
    inputs = batch.step(choose(batch, batch.start(), [0] * E)).next_start
    with pytest.raises(EnvironmentFault, match=r"index 2, episode 0, step 2: info\['action_mask'\] has no legal acti"):
        batch.step(choose(batch, inputs, [0] * E))


def test_an_episode_longer_than_the_longest_is_one_line() -> None:
    batch = make(AutoresetMode.NEXT_STEP, NanObservation, 2, longest_episode=3)
    batch.start()
    for _ in range(2):
        batch.step(np.zeros(2, np.int64))
    with pytest.raises(EnvironmentFault, match="index 0, episode 0, step 3: the episode has 3 steps; at most as many"):
        batch.step(np.zeros(2, np.int64))


def test_count_is_checked() -> None:
    with pytest.raises(ConfigError, match="count of environments is 0; at least 1 is required"):
        make_batch("vector/CartPole-v1", 0, seed=0)
