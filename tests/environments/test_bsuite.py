"""bsuite's experiments."""

import numpy as np
import pytest

from headrace.environments import describe, make, make_batch
from headrace.environments.bsuite import BSuite
from headrace.errors import EnvironmentFault

EXPERIMENTS = ("bandit", "cartpole", "catch", "deep_sea", "discounting_chain", "memory_len", "mountain_car")
NOISY = ("bandit_noise", "cartpole_noise", "catch_scale", "deep_sea_stochastic", "umbrella_distract")


def play(name: str, seed: int) -> list[float]:
    """Everything that an episode returns, with the same actions for every seed."""
    environment = make(name)
    actions = np.random.default_rng(0)
    observation, _ = environment.reset(seed=seed)
    found, ended = [*observation.tolist()], False
    while not ended:
        observation, reward, ended, cut, _ = environment.step(actions.integers(environment.action_space.n))  # type: ignore[attr-defined]
        assert environment.observation_space.contains(observation)
        assert not cut
        found += [*observation.tolist(), float(reward)]
    return found


def test_it_names_its_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bsuite", None)
    with pytest.raises(EnvironmentFault, match=r'needs bsuite .*: pip install "headrace\[bsuite\]"$'):
        make("bsuite/catch/0")


def test_names_are_those_of_the_sweep_without_images_to_download() -> None:
    sweep = pytest.importorskip("bsuite.sweep")
    names = BSuite().names()
    assert {"bsuite/deep_sea/3", "bsuite/memory_len/22", "bsuite/bandit_noise/0"} <= set(names)
    assert len(names) == len(sweep.SWEEP) - 60
    with pytest.raises(EnvironmentFault, match=r"bsuite/catch/0"):
        make("bsuite/katch/0")


def test_observations_are_flat() -> None:
    pytest.importorskip("bsuite")
    spec = describe("bsuite/deep_sea/1")
    assert (spec.input_shape, spec.observation_dtype, spec.actions) == ((144,), "float32", 2)


def test_videos_are_refused() -> None:
    pytest.importorskip("bsuite")
    with pytest.raises(EnvironmentFault, match=r'render_mode is "rgb_array"; it has none$'):
        make("bsuite/catch/0", render_mode="rgb_array")


@pytest.mark.parametrize("experiment", [*EXPERIMENTS, *NOISY])
def test_a_seed_repeats_an_episode(experiment: str) -> None:
    """Also the noise of its rewards, regardless of what was played before."""
    pytest.importorskip("bsuite")
    name = f"bsuite/{experiment}/0"
    assert play(name, 3) == play(name, 3)


@pytest.mark.parametrize("experiment", NOISY)
def test_other_seeds_are_other_episodes(experiment: str) -> None:
    pytest.importorskip("bsuite")
    name = f"bsuite/{experiment}/{0 if experiment != 'bandit_noise' else 5}"
    assert any(play(name, 3) != play(name, seed) for seed in range(4, 9))


def test_what_is_fixed_for_all_episodes_stays() -> None:
    """The actions that deep_sea maps to left and right do not depend on the episode's seed."""
    pytest.importorskip("bsuite")
    assert play("bsuite/deep_sea/0", 3) == play("bsuite/deep_sea/0", 4)


def test_a_batch_plays() -> None:
    pytest.importorskip("bsuite")
    batch = make_batch("bsuite/catch/0", 2, seed=0)
    batch.start()
    random = np.random.default_rng(0)
    for _ in range(50):
        batch.step(random.integers(0, 3, 2))
    assert {(episode.length, abs(episode.return_)) for episode in batch.take_episodes()} == {(9, 1.0)}
    batch.close()


def test_noise_is_not_what_the_environment_draws() -> None:
    """The first reward's noise against the first observation, over 300 seeds: three standard errors are 0.17."""
    pytest.importorskip("bsuite")
    environment = make("bsuite/cartpole_noise/19")  # noise of deviation 10
    observations, rewards = [], []
    for seed in range(300):
        observations.append(environment.reset(seed=seed)[0])
        rewards.append(environment.step(environment.action_space.dtype.type(1))[1])
    starts = np.array(observations)
    moving = [column for column in starts.T if column.std() > 0]
    assert moving
    assert max(abs(np.corrcoef(column, rewards)[0, 1]) for column in moving) < 0.25
