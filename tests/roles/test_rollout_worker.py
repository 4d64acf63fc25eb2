"""Contents of a rollout step by step, when it is used for an update, and where the next one starts."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from headrace import A3C
from headrace.algorithms.a3c.updater import A3CUpdater
from headrace.algorithms.base import Update
from headrace.algorithms.engine import choose_engine
from headrace.algorithms.opener import NetworkOpener
from headrace.environments import describe
from headrace.environments.toy import Frames
from headrace.errors import DivergenceError
from headrace.roles.rollout_worker import RolloutWorker
from headrace.types import Batch

from ..environments.walks import register

CORRIDOR = "headrace.environments.toy:Corridor"
FRAMES = "headrace.environments.toy:Frames"
TARGET = "headrace.environments.toy:Target"


class Recorder(A3CUpdater):
    """Records the batches and the names of the called methods."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.batches: list[Batch] = []
        self.calls: list[str] = []

    def pull(self) -> int:
        self.calls.append("pull")
        return super().pull()

    def act(self, observation: Any) -> Any:
        self.calls.append("act")
        return super().act(observation)

    def transfer(self, batch: Batch) -> Any:
        self.batches.append(batch)
        return super().transfer(batch)

    def update(self, tensors: Any) -> Update:
        self.calls.append("update")
        return super().update(tensors)


def record(config: A3C, environment: str, seed: int) -> Recorder:
    spec = describe(environment)
    engine = choose_engine("auto", "cpu", config.architecture(spec))
    return Recorder(config, spec, NetworkOpener(engine, "cpu", None, np.random.default_rng(seed)))


def make(environment: str, count: int = 2, seed: int = 3, **settings: Any) -> tuple[RolloutWorker, Recorder]:
    config = A3C(**{"hidden": (16,), "discount": 0.5, **settings})
    updater = record(config, environment, seed)
    return RolloutWorker(environment, count, config, updater, seed=seed), updater


def test_a_turn_is_one_rollout_and_one_update_from_all_of_it() -> None:
    worker, updater = make(CORRIDOR, n_step=4)
    worker.step()
    worker.step()
    assert updater.calls == ["pull", *["act"] * 4, "update"] * 2
    assert [len(batch.reward) for batch in updater.batches] == [8, 8]
    assert (worker.count, worker.steps, worker.learner.steps, worker.learner.staleness) == (2, 16, 2, 0.0)
    assert updater.batches[1].policy_version.tolist() == [2] * 8
    worker.close()


def test_returns_stop_at_ends_and_bootstrap_at_limits() -> None:
    """Both environments of 6 steps of reward 1 terminate at step 6 and are cut off at step 12 of 14."""
    worker, updater = make(FRAMES, n_step=14, network="mlp")
    values = updater.values
    asked: list[np.ndarray] = []

    def remember(observation: Any) -> Any:
        asked.append(observation)
        return values(observation)

    updater.values = remember  # type: ignore[method-assign]
    worker.step()
    [batch] = updater.batches
    frames = batch.observation.reshape(14, 2, 84, 84)
    assert frames[:, 0, 1, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1]
    assert frames[:, 1, 0, 0].tolist() == [0] * 6 + [1] * 6 + [2] * 2
    cut, end = asked
    assert cut[:, 1, 0].tolist() == [6, 6]  # the last frames of the episodes, in which no action was taken
    assert end[:, 1, 0].tolist() == [2, 2]
    returns = batch.reward.reshape(14, 2)
    terminated = [
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16 + 1 / 32,
        1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16,
        1.875,
        1.75,
        1.5,
        1.0,
    ]
    np.testing.assert_allclose(returns[:6, 0], terminated, rtol=1e-6)
    assert [episode.length for episode in worker.take_episodes()] == [6] * 4
    # The update has changed the values since: what they were follows from the last returns.
    cut_value, end_value = 2 * (returns[11] - 1), 2 * (returns[13] - 1)
    assert np.abs(cut_value).max() > 1e-6
    np.testing.assert_allclose(returns[10], 1 + (1 + cut_value / 2) / 2, rtol=1e-5)
    np.testing.assert_allclose(returns[12], 1 + (1 + end_value / 2) / 2, rtol=1e-5)
    worker.close()


def test_a_rollout_that_ends_with_a_cut_episode_bootstraps_from_its_last_frame() -> None:
    worker, updater = make(FRAMES, n_step=12, network="mlp")
    values = updater.values
    asked: list[tuple[np.ndarray, np.ndarray]] = []

    def remember(observation: Any) -> Any:
        asked.append((observation, np.copy(values(observation))))
        return asked[-1][1]

    updater.values = remember  # type: ignore[method-assign]
    worker.step()
    (cut, cut_value), (begun, begun_value) = asked
    assert (cut[:, 0, 0].tolist(), cut[:, 1, 0].tolist()) == ([1, 1], [6, 6])
    assert (begun[:, 0, 0].tolist(), begun[:, 1, 0].tolist()) == ([2, 2], [0, 0])
    assert np.abs(cut_value - begun_value).min() > 1e-3
    np.testing.assert_allclose(updater.batches[0].reward[-2:], 1 + cut_value / 2, rtol=1e-6)
    worker.close()


def test_a_rollout_worker_learns_from_clipped_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards are from 0 to 5, and an episode has at most 5 steps: a return above 5 is of unclipped rewards."""
    name = register(monkeypatch, AutoresetMode.NEXT_STEP)
    worker, updater = make(name, count=4, discount=0.0, n_step=10, clip_rewards=True)
    worker.step()
    assert set(updater.batches[0].reward.tolist()) == {0.0, 1.0}
    assert max(episode.return_ for episode in worker.take_episodes()) > 5
    worker.close()


def test_a_reset_of_a_vectorized_environment_is_no_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, but each episode is followed by a step that resets: 2 of 14 steps are left out."""
    name = register(monkeypatch, AutoresetMode.NEXT_STEP, Frames)
    worker, updater = make(f"vector/{name}", n_step=14, network="mlp")
    worker.step()
    [batch] = updater.batches
    frames = batch.observation.reshape(12, 2, 84, 84)
    assert frames[:, 0, 1, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]
    assert frames[:, 1, 0, 0].tolist() == [0] * 6 + [1] * 6
    np.testing.assert_allclose(batch.reward.reshape(12, 2)[4:6, 0], [1.5, 1.0])
    assert (batch.reward[-2:] != 1).all()  # the second episodes are cut off
    assert worker.steps == 24
    assert [episode.length for episode in worker.take_episodes()] == [6] * 4
    worker.close()


def test_a_turn_of_nothing_but_resets_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    name = register(monkeypatch, AutoresetMode.NEXT_STEP, Frames)
    worker, updater = make(f"vector/{name}", n_step=1, network="mlp")
    for _ in range(8):
        worker.step()
    assert [len(batch.reward) for batch in updater.batches] == [2] * 8
    assert [batch.observation[0, 1, 0] for batch in updater.batches] == [0, 1, 2, 3, 4, 5, 0, 1]
    worker.close()


def test_bootstrap_uses_the_parameters_that_acted() -> None:
    worker, updater = make(CORRIDOR, n_step=1)
    worker.step()
    before = updater.state()
    worker.step()
    worker.step()
    led_to = updater.batches[2].observation
    updater.load(before)
    np.testing.assert_allclose(updater.batches[1].reward, 0.5 * updater.values(led_to), atol=1e-6)
    worker.close()


def test_continuous_actions_are_clipped_only_for_the_environment() -> None:
    worker, updater = make(TARGET, count=4, n_step=16)
    worker.step()
    action = updater.batches[0].action
    assert (action.shape, action.dtype) == ((64, 1), np.float32)
    assert np.abs(action).max() > 1
    played = np.array(worker.state()["environments"]["actions"])  # [E, T, A], of the open episodes
    assert np.abs(played).max() == 1
    worker.close()


def test_stacks_of_frames() -> None:
    worker, updater = make("ALE/Pong-v5", n_step=3, hidden=(8,))
    worker.step()
    observation = updater.batches[0].observation
    assert observation.shape == (6, 4, 84, 84)
    assert (observation[2, -2] == observation[0, -1]).all()  # environment 0, one step on
    worker.close()


@pytest.mark.parametrize("environment", [CORRIDOR, TARGET, "CartPole-v1"])
def test_restored_worker_continues_bit_for_bit(environment: str) -> None:
    first, ours = make(environment, n_step=7)
    for _ in range(5):
        first.step()
    place = json.loads(json.dumps(first.state()))
    second, theirs = make(environment, n_step=7)
    theirs.load(ours.state())
    second.restore(place)
    second.learner.steps = first.learner.steps
    for _ in range(5):
        first.step()
        second.step()
    assert second.steps == first.steps == 140
    assert np.array_equal(ours.state()["parameters"], theirs.state()["parameters"])
    assert second.learner.loss == first.learner.loss
    first.close()
    second.close()


def test_other_environments_of_the_same_seed_play_different_episodes() -> None:
    """With a uniform policy, so that actions depend on the random numbers alone."""
    config = A3C(hidden=(16,))
    batches = []
    for first in (0, 2):
        updater = record(config, "CartPole-v1", 0)
        updater.load({**updater.state(), "parameters": np.zeros_like(updater.state()["parameters"])})
        worker = RolloutWorker("CartPole-v1", 2, config, updater, seed=0, first_environment=first)
        worker.step()
        worker.close()
        batches.append(updater.batches[0])
    assert not (batches[0].observation == batches[1].observation).all(1).any()
    assert not np.array_equal(batches[0].action, batches[1].action)


def test_each_clock_is_paused_while_the_other_side_works(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    for module in ("clock", "rollout_worker"):
        monkeypatch.setattr(f"headrace.roles.{module}.monotonic", lambda: now)
    worker, updater = make(CORRIDOR, n_step=8)

    def pass_time(method: Any, seconds: float) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal now
            now += seconds
            return method(*arguments)

        return call

    monkeypatch.setattr(updater, "pull", pass_time(updater.pull, 1.0))
    monkeypatch.setattr(updater, "update", pass_time(updater.update, 16.0))
    for _ in range(3):
        worker.step()
    worker.clock.enter("other")  # counts what has passed
    worker.learner.clock.enter("other")
    assert {phase: seconds for phase, seconds in worker.clock.seconds.items() if seconds} == {"pull": 3.0}
    assert {phase: seconds for phase, seconds in worker.learner.clock.seconds.items() if seconds} == {"train": 48.0}
    worker.close()


def test_parameters_that_are_not_finite_stop_it() -> None:
    worker, updater = make(CORRIDOR)
    updater.load({**updater.state(), "parameters": np.full_like(updater.state()["parameters"], float("inf"))})
    with pytest.raises(DivergenceError, match="the loss of update 1 is nan"):
        worker.step()
    worker.close()
