"""Names of vectorized environments, their spaces, and what is said of those that there are not."""

import gymnasium
import numpy as np
import pytest

from headrace.environments import VectorSuite, describe, make, make_batch, repeats_episodes
from headrace.environments.suites import find_suite
from headrace.environments.vector import VectorEnvironments
from headrace.errors import EnvironmentFault


@pytest.mark.parametrize(
    ("environment_id", "vectorized"),
    [("CartPole-v1", False), ("vector/CartPole-v1", True), ("envpool/Pong-v5", True), ("dm_control/pole", False)],
)
def test_the_prefix_chooses_vectorized_environments(environment_id: str, vectorized: bool) -> None:
    assert isinstance(find_suite(environment_id), VectorSuite) == vectorized
    assert repeats_episodes(environment_id) != vectorized


def test_cartpole_has_the_spaces_and_the_limit_of_the_single_one() -> None:
    batch = make_batch("vector/CartPole-v1", 3, seed=0)
    assert isinstance(batch, VectorEnvironments)
    assert batch.spec == describe("vector/CartPole-v1") == describe("CartPole-v1")
    assert make("vector/CartPole", render_mode="rgb_array").render_mode == "rgb_array"
    inputs = batch.start()
    while not batch.episodes:  # balances for some hundreds of steps
        inputs = batch.step((inputs @ [0.0, 0.2, 1.0, 0.5] > 0).astype(np.int64)).next_start
    assert batch.take_episodes()[0].length > 100


def test_an_environment_without_a_vector_entry_point_is_one_line() -> None:
    for name in ("vector/Acrobot-v1", "vector/Acrobot"):
        with pytest.raises(EnvironmentFault) as caught:
            make_batch(name, 2, seed=0)
        assert str(caught.value) == (
            f'environment "{name}": Acrobot-v1 has no vector entry point, which vector/ requires; train Acrobot-v1'
        )


def test_an_unknown_environment_is_one_line() -> None:
    with pytest.raises(
        EnvironmentFault, match=r'^environment "vector/CartPol-v1" is unknown: did you mean vector/Cart'
    ):
        make_batch("vector/CartPol-v1", 2, seed=0)


def test_envpool_names_its_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "envpool", None)
    with pytest.raises(
        EnvironmentFault, match=r'"envpool/Pong-v5" needs EnvPool .*: pip install "headrace\[envpool\]"$'
    ):
        make_batch("envpool/Pong-v5", 2, seed=0)


def test_a_pool_seeds_each_environment_and_skips_resets() -> None:
    pytest.importorskip("envpool")
    batch, again = (make_batch("envpool/CartPole-v1", 4, seed=3) for _ in range(2))
    assert batch.spec == describe("envpool/CartPole-v1") == describe("CartPole-v1")
    first = batch.start()
    np.testing.assert_array_equal(first, again.start())
    assert len(np.unique(first)) == first.size
    lengths, skipped = 0, 0
    for _ in range(100):
        step = batch.step(np.ones(4, np.int64))
        np.testing.assert_array_equal(step.next_start, again.step(np.ones(4, np.int64)).next_start)
        assert step.skipped is not None
        assert (np.abs(step.next_start[step.skipped]) <= 0.05).all()
        skipped, lengths = skipped + int(step.skipped.sum()), lengths + step.taken
    episodes = batch.take_episodes()
    assert lengths + skipped == 400
    assert len(episodes) - skipped in range(5)
    assert all(episode.return_ == episode.length and episode.terminated for episode in episodes)
    batch.close()


def test_one_environment_of_a_pool() -> None:
    pytest.importorskip("envpool")
    environment = make("envpool/CartPole-v1")
    assert isinstance(environment, gymnasium.Env)
    observation, _ = environment.reset(seed=4)
    assert environment.observation_space.contains(observation)
    observation, reward, terminated, truncated, _ = environment.step(1)
    assert environment.observation_space.contains(observation)
    assert (reward, terminated, truncated) == (1.0, False, False)
    environment.close()
