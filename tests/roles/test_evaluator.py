"""Greedy episodes: how many of each environment, and where they end."""

import json
import threading
from collections import Counter
from dataclasses import asdict
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.algorithms.config import Algorithm
from headrace.algorithms.dqn.config import DQN
from headrace.environments import describe
from headrace.environments.base import episode_seed
from headrace.environments.toy import Corridor
from headrace.errors import ClosedError, EnvironmentFault
from headrace.networks.policy_graph import PolicyGraph
from headrace.roles import evaluator
from headrace.roles.evaluator import EvaluatorRole, play
from headrace.roles.messages import EVALUATION_POLICY, Answer
from headrace.types import EnvironmentSpec


def right(observation: np.ndarray) -> np.ndarray:
    return np.ones(len(observation), np.int64)


def left(observation: np.ndarray) -> np.ndarray:
    return np.zeros(len(observation), np.int64)


def answers_of_role(environment: str, algorithm: Algorithm, graph: bytes, count: int) -> list[Answer]:
    """The first answers that the role sends to one request for 2 episodes."""
    asked = {"start": "s", "request": 3, "environment": environment, "episodes": 2, "seed": 0}
    spec = asdict(describe(environment))
    body = json.dumps({**asked, "spec": spec, "algorithm": algorithm.to_record()}).encode()
    answers: list[Answer] = []
    stop = threading.Event()

    def put(mailbox: str, message: bytes) -> None:
        report = json.loads(message)
        if "answer" in report:
            answers.append(report["answer"])
        if len(answers) == count:
            stop.set()

    def fetch(name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        return (1, graph) if name == EVALUATION_POLICY else (1, body) if newer_than < 1 else None

    server = Mock(put=put, fetch=fetch)
    with pytest.raises(ClosedError):
        EvaluatorRole(0).run(Mock(connect=lambda: server, stop=stop))
    return answers


@pytest.mark.parametrize("episodes", [1, 3, 20, 47])
def test_plays_the_requested_number_of_episodes(episodes: int) -> None:
    score = play("headrace.environments.toy:Corridor", right, episodes, seed=0)
    assert score.returns == [1.0] * episodes
    assert score.lengths == [7] * episodes


def test_each_environment_plays_its_share_however_long_its_episodes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reaches the goal after 7 steps; the other never does and is truncated after 40."""
    monkeypatch.setattr(evaluator, "_TOGETHER", 2)
    score = play("headrace.environments.toy:Corridor", lambda observation: np.array([1, 0]), 4, seed=0)
    assert sorted(score.lengths) == [7, 7, 40, 40]


def test_reset_is_called_after_each_step_with_the_environments_that_began_an_episode() -> None:
    began: list[list[bool]] = []
    play("headrace.environments.toy:Corridor", right, 3, seed=0, reset=lambda ended: began.append(ended.tolist()))
    assert began == [[False] * 3] * 6 + [[True] * 3]


def test_episodes_depend_only_on_the_seed() -> None:
    first, second, other = (play("CartPole-v1", left, 30, seed) for seed in (1, 1, 2))
    assert first == second
    assert Counter(first.lengths) != Counter(other.lengths)


def test_seeds_of_episodes_are_none_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    reset, seeds = Corridor.reset, []

    def record(environment: Corridor, *, seed: int | None = None, **options: Any) -> Any:
        seeds.append(seed)
        return reset(environment, seed=seed, **options)

    monkeypatch.setattr(Corridor, "reset", record)
    play("headrace.environments.toy:Corridor", right, 4, seed=3)
    assert seeds[:4] == [episode_seed(3, 2**31 + index, 0) for index in range(4)]
    assert not {episode_seed(3, index, episode) for index in range(100) for episode in range(100)} & set(seeds)


def test_continuous_actions_are_used_unchanged() -> None:
    """Half of what a move can be is 0.5 in the policy's units, so twice the distance is the best action."""
    best = play("headrace.environments.toy:Target", lambda o: np.clip(2 * (o[:, 1:] - o[:, :1]), -1, 1), 40, seed=0)
    still = play("headrace.environments.toy:Target", lambda o: 0 * o[:, :1], 40, seed=0)
    assert best.lengths == still.lengths == [10] * 40
    assert min(best.returns) >= 10 - 1.5  # three steps too few, from a distance of 2
    assert np.mean(best.returns) > 9.5
    assert np.mean(still.returns) < 8


def test_an_endless_episode_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "LONGEST_EPISODE", 12)
    score = play("headrace.environments.toy:Corridor", left, 4, seed=0)
    assert score.lengths == [12] * 4
    assert score.returns == [0.0] * 4


def test_beats_at_least_once_for_every_step() -> None:
    beats = []
    score = play("headrace.environments.toy:Corridor", right, 5, seed=0, beat=lambda: beats.append(1))
    assert len(beats) >= sum(score.lengths)


def test_values_that_are_not_finite_are_a_fault() -> None:
    from headrace.errors import EnvironmentFault

    with pytest.raises(EnvironmentFault, match="step 7: observation"):
        play("headrace.environments.toy:NanObservation", left, 2, seed=0)


def test_an_environment_unlike_the_policys_is_refused() -> None:
    spec = EnvironmentSpec((4,), "float32", 3)
    with pytest.raises(EnvironmentFault, match=r"2 discrete actions here, and .* 3 discrete actions"):
        play("CartPole-v1", left, 2, seed=0, spec=spec)


def test_an_answer_is_sent_again_until_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mailbox that is full drops its oldest messages, and the run waits for the answer."""
    monkeypatch.setattr(evaluator, "_AGAIN_SECONDS", 0.0)
    spec, algorithm = EnvironmentSpec((4,), "float32", 2), DQN(hidden=(4,))
    updater = algorithm.make_updater(spec, "cpu", 0, None)
    graph = PolicyGraph(updater.architecture).serialize(updater.weights())
    answers = answers_of_role("CartPole-v1", algorithm, graph, 3)
    assert [answer["request"] for answer in answers] == [3, 3, 3]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]["returns"]) == 2


def test_a_recurrent_policy_remembers_nothing_of_the_episode_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts its steps: it moves right in the first 7, which lead to the goal, and left in those after them."""

    def advance(observation: np.ndarray, state: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.where(state < 7, [[0, 1]], [[1, 0]]).astype(np.float32), state + 1

    monkeypatch.setattr(evaluator, "_TOGETHER", 1)
    monkeypatch.setattr(evaluator, "Policy", Mock(return_value=Mock(advance=advance, state_size=1)))
    (answer,) = answers_of_role("headrace.environments.toy:Corridor", DQN(), b"", 1)
    assert answer["lengths"] == [7, 7]
