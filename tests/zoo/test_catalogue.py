"""The policies that come with the package: each loads without its environment and plays as its entry says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace.algorithms.dqn import DQN
from headrace.environments import describe
from headrace.errors import ConfigError, EnvironmentFault
from headrace.networks.policy_graph import PolicyGraph
from headrace.settings import RunConfig
from headrace.training import evaluate
from headrace.training.saved_policy import Interface, _ActionSpace, load_kept, read_trained
from headrace.zoo import KeptPolicy, find_kept, kept_policies, zoo_name
from headrace.zoo.catalogue import FOLDER

LARGEST_BYTES = 1_500_000
EPISODES = 10


@pytest.mark.parametrize(("path", "name"), [("zoo:", ""), ("zoo:a/B-v0", "a/B-v0"), ("runs/zoo:x", None)])
def test_the_prefix_makes_a_name(path: str, name: str | None) -> None:
    assert zoo_name(path) == zoo_name(Path(path)) == name


def test_an_unknown_name_is_refused_with_all_names() -> None:
    with pytest.raises(ConfigError) as caught:
        find_kept("Nothing-v0")
    assert "policy is zoo:Nothing-v0; it must be one of" in str(caught.value)
    assert all(f"zoo:{name}" in str(caught.value) for name in kept_policies())
    with pytest.raises(ConfigError, match="policy is zoo:Nothing-v0"):
        headrace.load("zoo:Nothing-v0")


def test_the_folder_holds_the_policies_of_the_index_and_they_are_small() -> None:
    assert sorted(each.file for each in kept_policies().values()) == sorted(path.name for path in FOLDER.glob("*.onnx"))
    assert all(path.stat().st_size < LARGEST_BYTES for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", kept_policies())
def test_a_policy_is_that_of_its_settings(name: str) -> None:
    kept = find_kept(name)
    config = RunConfig.from_json(json.dumps(kept.config))
    trained = read_trained(kept)
    policy = headrace.load(f"zoo:{name}")
    assert config.environment == kept.environment == trained.environment
    assert config.algorithm.name == kept.algorithm
    assert trained.algorithm == policy.interface.algorithm == config.algorithm
    assert policy.spec == trained.spec == describe(kept.environment)


@pytest.mark.parametrize("name", kept_policies())
def test_a_policy_plays_as_well_as_its_entry_says(name: str) -> None:
    """10 of the 100 episodes: their mean is within five standard errors, or half of an episode's unit if all agree."""
    kept = find_kept(name)
    played = evaluate(kept, episodes=EPISODES)
    assert played.mean == pytest.approx(kept.mean_return, abs=0.5 + 5 * kept.std_return / EPISODES**0.5)
    assert played.moment.environment_steps == kept.environment_steps


def test_the_seed_is_that_of_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def play(environment, act, episodes, seed, *rest):
        seeds.append(seed)
        raise ConfigError("enough")

    monkeypatch.setattr("headrace.training.result.play", play)
    kept: KeptPolicy = next(iter(kept_policies().values()))
    for given in (None, 7):
        with pytest.raises(ConfigError, match="enough"):
            evaluate(kept, seed=given)
    assert seeds == [kept.episode_seed, 7]


def test_a_policy_of_observations_with_parts_takes_those_of_its_environment(tmp_path: Path) -> None:
    """FrozenLake's are one cell, whose space is that of the environment."""
    spec, algorithm = describe("FrozenLake-v1"), DQN(hidden=(8,))
    updater = algorithm.make_updater(spec, "cpu", 0)
    graph = PolicyGraph(updater.architecture).serialize(updater.weights())
    path = tmp_path / "lake.onnx"
    path.write_bytes(Interface(spec, algorithm, _ActionSpace()).write(graph))
    policy = load_kept(replace(find_kept("CartPole-v1"), environment="FrozenLake-v1", file=str(path)))
    assert {policy.act(cell) for cell in range(16)} <= {0, 1, 2, 3}
    with pytest.raises(EnvironmentFault, match="observation is 16; 0 to 15 is required"):
        policy.act(16)
