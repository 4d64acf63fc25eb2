"""Rollouts with a known model: where they end, and the resulting chunks."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace import DynaQ
from headrace._native import Signature, Table
from headrace.algorithms.dyna_q.simulation import Rollouts, simulate, write_chunks
from headrace.algorithms.exploration import EpsilonGreedy
from headrace.networks.world_model import Prediction, WorldModel
from headrace.replay import BatchBuffer
from headrace.types import Array

SIGNATURE = Signature((1,), "float32")


class Known(WorldModel):
    """Two members; action 1 adds 1 to the state, 0 takes 1 away; reward is the state; it ends above `end`.

    Where the state is `unknown` the second member says 3 more of what `about` names.
    """

    def __init__(self, end: float = 100.0, unknown: float = 100.0, about: str = "change") -> None:
        super().__init__(1, 2, (4,), 2, np.random.default_rng(0))
        self._end = end
        self._unknown = unknown
        self._about = about
        zeros, ones = np.zeros((2, 1), np.float32), np.ones(2, np.float32)
        self.observe(zeros, np.array([[-1], [1]], np.float32), zeros[:, 0], ones)  # deviation 1

    def predict(self, observation: NDArray[np.float32], action: NDArray[np.int64]) -> Prediction:
        change = np.tile(2 * action.astype(np.float32) - 1, (2, 1))
        reward = np.tile(observation[:, 0], (2, 1))
        done = np.where(observation[:, 0] + change > self._end, 5, -5).astype(np.float32)
        predicted = {"change": change, "reward": reward, "done": done}
        predicted[self._about][1] += (10.0 if self._about == "done" else 3.0) * (observation[:, 0] == self._unknown)
        return Prediction(change[..., None], reward, done)


def rightwards(observation: Array) -> NDArray[np.float32]:
    """Q values that prefer action 1."""
    return np.tile(np.array([0, 1], np.float32), (len(observation), 1))


def roll(model: WorldModel, start: list[float], steps: int, limit: float = 1.0, epsilon: float = 0.0) -> Rollouts:
    exploration = EpsilonGreedy([epsilon] * len(start), 0)
    return simulate(model, np.array(start, np.float32)[:, None], rightwards, exploration, steps, limit)


def test_a_rollout_follows_the_model() -> None:
    found = roll(Known(), [0, 10], 3)
    assert found.observation[:, :, 0].tolist() == [[0, 10], [1, 11], [2, 12], [3, 13]]
    assert found.action.tolist() == [[1, 1]] * 3
    assert found.reward.tolist() == [[0, 10], [1, 11], [2, 12]]
    assert found.length.tolist() == [3, 3]
    assert not found.terminated.any()
    assert found.dropped == 0


def test_a_rollout_ends_at_a_predicted_termination() -> None:
    found = roll(Known(end=2.5, unknown=4), [0, 2, -5], 4)
    assert found.length.tolist() == [3, 1, 4]
    assert found.terminated.tolist() == [True, True, False]
    assert found.dropped == 0  # the second one disagrees at 4, after its end


@pytest.mark.parametrize(("about", "deviation"), [("change", 1.5), ("reward", 1.5), ("done", 0.9866)])
def test_disagreement_drops_the_step_and_ends_the_rollout(about: str, deviation: float) -> None:
    model = Known(unknown=2, about=about)  # members differ by 3 there; by sigmoid(5) - sigmoid(-5) in units of 0.5
    found = roll(model, [0, 2, 5], 4, limit=deviation - 0.001)
    assert found.length.tolist() == [2, 0, 4]
    assert found.dropped == 2
    assert roll(model, [0, 2, 5], 4, limit=deviation + 0.001).dropped == 0


def test_actions_explore() -> None:
    found = roll(Known(), [0.0] * 4000, 1, epsilon=0.5)
    assert abs(found.action.mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)


def test_each_step_is_the_prediction_of_one_member() -> None:
    model = Known(unknown=0)
    found = roll(model, [0.0] * 4000, 1, limit=2.0)
    other = (found.observation[1, :, 0] == 4).mean()
    assert set(np.unique(found.observation[1])) == {1, 4}
    assert abs(other - 0.5) < 4 * np.sqrt(0.25 / 4000)


def test_chunks_hold_n_step_transitions_with_the_models_version() -> None:
    config = DynaQ(n_step=2, discount=0.5, rollout_steps=3)
    rollouts = roll(Known(end=9.5), [1, 8], 3)  # the second ends at 10, after 2 steps
    chunks = write_chunks(rollouts, SIGNATURE, config, version=17, actor=4)
    assert len(chunks) == 2
    table = Table(SIGNATURE, capacity=100, sampler="uniform", seed=0)
    for chunk in chunks:
        table.insert(chunk)
    assert table.size == 5
    buffer = BatchBuffer(SIGNATURE, 400)
    assert table.sample_into(buffer.view, 0.0, 0.0)
    batch = buffer.arrays
    assert set(batch.policy_version.tolist()) == {17}
    rows = zip(
        batch.observation[:, 0].tolist(),
        batch.next_observation[:, 0].tolist(),
        batch.reward.tolist(),
        batch.discount.tolist(),
        strict=True,
    )
    # reward r_t + 0.5 r_{t+1}; the last step of the first bootstraps after one step, the second's end does not
    assert set(rows) == {(1, 3, 2, 0.25), (2, 4, 3.5, 0.25), (3, 4, 3, 0.5), (8, 10, 12.5, 0), (9, 10, 9, 0)}


def test_a_rollout_without_steps_gives_no_chunk() -> None:
    assert write_chunks(roll(Known(unknown=2), [2], 4), SIGNATURE, DynaQ(), 1, 0) == []
