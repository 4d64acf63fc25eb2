"""Which preset an environment has."""

import pytest

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Tuned
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.errors import ConfigError
from headrace.settings import PRESETS, preset, presets_of


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("Pendulum-v1", "Pendulum-v1"),
        ("ALE/Pong-v5", "ALE/..."),
        ("dm_control/cheetah-run", "dm_control/..."),
        ("ale_py:ALE/Pong-v5", "ALE/..."),
        ("package.module:CartPole-v1", "CartPole-v1"),
    ],
)
def test_an_environment_has_its_own_or_its_familys(environment, name):
    assert preset(environment) == PRESETS[name]


@pytest.mark.parametrize(
    "environment", ["", "Unknown-v0", "ALE", "CartPole-v1/x", "package.module:factory", "module:CartPole"]
)
def test_any_other_has_the_defaults(environment):
    known = preset(environment)
    assert known not in PRESETS.values()
    assert known.algorithm == DQN()


def test_its_own_algorithm_by_name_changes_nothing():
    assert preset("CartPole-v1", "dqn") == PRESETS["CartPole-v1"]
    assert preset("Pendulum-v1", "d4pg") == PRESETS["Pendulum-v1"]


def test_another_algorithm_has_its_defaults_and_the_presets_rest():
    assert preset("CartPole-v1", "d4pg") == PRESETS["CartPole-v1"]._replace(algorithm=D4PG())
    assert preset("Pendulum-v1", "dqn") == PRESETS["Pendulum-v1"]._replace(algorithm=DQN())
    assert preset("Unknown-v0", "d4pg").algorithm == D4PG()


def test_another_algorithm_has_its_own_presets():
    tuned = A3C.presets()["CartPole-v1"]
    assert tuned.algorithm != A3C()
    assert preset("CartPole-v1", "a3c") == PRESETS["CartPole-v1"]._replace(algorithm=tuned.algorithm, steps=tuned.steps)


@pytest.mark.parametrize(
    ("algorithm", "topology"), [("dqn", "apex"), ("dyna-q", "apex"), ("d4pg", "apex"), ("a3c", "hogwild")]
)
def test_algorithms_without_replay_do_not_use_apex(algorithm, topology):
    assert preset("CartPole-v1", algorithm).topology_name == topology


def test_presets_of_an_algorithm_are_those_that_begin_with_it_and_those_that_know_of_it():
    assert presets_of("d4pg") == {name: each for name, each in PRESETS.items() if isinstance(each.algorithm, D4PG)}
    of_a3c = presets_of("a3c")
    assert {"CartPole-v1", "LunarLander-v3"} <= of_a3c.keys()
    assert all(isinstance(each.algorithm, A3C) for each in of_a3c.values())


def test_a_frugal_preset_learns_more_from_each_step_in_one_environment():
    frugal, usual = preset("LunarLander-v3", frugal=True), preset("LunarLander-v3")
    assert frugal.algorithm.samples_per_step > usual.algorithm.samples_per_step
    assert frugal.steps < usual.steps
    assert (frugal.topology_name, usual.topology_name) == ("serial", "apex")
    assert frugal.topology("serial").envs_per_actor == 1
    assert (frugal.topology("apex"), frugal.note) == (usual.topology("apex"), usual.note)


@pytest.mark.parametrize(
    ("environment", "algorithm", "whose"),
    [
        ("Taxi-v4", None, "Taxi-v4 with dqn"),
        ("LunarLander-v3", "a3c", "LunarLander-v3 with a3c"),
        ("LunarLander-v3", "dyna-q", "LunarLander-v3 with dyna-q"),  # a subclass of DQN, whose preset is not its own
    ],
)
def test_an_environment_without_a_frugal_preset_is_refused(environment, algorithm, whose):
    with pytest.raises(ConfigError, match=f"frugal is given, and {whose} has no frugal preset") as caught:
        preset(environment, algorithm, frugal=True)
    assert "LunarLander-v3 with dqn" in str(caught.value)


def test_frugal_chooses_the_algorithm_that_has_a_preset():
    assert preset("Pendulum-v1").algorithm.name == "d4pg"
    assert preset("Pendulum-v1", frugal=True).algorithm.name == "crossq"
    with pytest.raises(ConfigError, match="Pendulum-v1 with d4pg has no frugal preset"):
        preset("Pendulum-v1", "d4pg", frugal=True)


def test_the_note_says_what_is_known_of_an_environment(monkeypatch):
    assert preset("CartPole-v1").note == "500 is the maximum return of an episode"
    assert preset("Nowhere-v0").note == "no preset: the defaults"
    for method in ("presets", "frugal_presets"):
        monkeypatch.setattr(DQN, method, classmethod(lambda kind: {"package/...": Tuned(DQN(), 10)}))
    assert preset("package/Task").note == "a preset of dqn"
    assert preset("package/Task", frugal=True).note == "a frugal preset of dqn"


def test_frugal_presets_of_an_algorithm():
    assert {*presets_of("dqn", frugal=True)} == {*DQN.frugal_presets()}
    assert presets_of("dyna-q", frugal=True) == presets_of("a3c", frugal=True) == {}


def test_a_name_without_its_version_has_the_preset_of_the_newest():
    """As the environment that it names does."""
    for name in ("CartPole", "Pendulum", "headrace/Snake", "vector/CartPole"):
        assert preset(name) == preset(f"{name}-v{1 if 'headrace' not in name else 0}")
    assert preset("CartPole").note != preset("Cart").note == preset("CartPole-v9").note == preset("").note


def test_frugal_presets_are_found_as_others_are():
    assert preset("vector/LunarLander", frugal=True) == preset("LunarLander-v3", frugal=True)
