"""A suite of another package: found by its prefix, created, stepped and trained, without a change in Headrace."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from headrace.environments import describe, make, make_batch
from headrace.environments.suites import SUITES, find_suite
from headrace.environments.toy import Corridor
from headrace.errors import EnvironmentFault
from headrace.settings import preset
from headrace.types import EnvironmentSpec, Sizing

TOYS = """
from headrace.environments import Suite
from headrace.environments.toy import Corridor

CELLS = {{"short": 3, "long": 9, "old-v1": 4, "old-v10": 5}}

class Stacked(Corridor):
    metadata = {{**Corridor.metadata, "stack": 2}}

class Toys(Suite):
    prefix = "{prefix}/"
    {more}

    def names(self):
        return [self.prefix + task for task in CELLS]

    def make(self, name, render_mode):
        task = name.removeprefix(self.prefix)
        return (Stacked if task == "long" else Corridor)(render_mode, cells=CELLS[task])

SUITE = Toys()
"""


@pytest.fixture
def install(add_package):
    """Installs a package with one entry point, of the given prefix -> nothing; the prefix names its module too."""

    def write(prefix, source=TOYS, more=""):
        text = source.format(prefix=prefix, more=more)
        add_package("headrace.environments", prefix, f"{prefix}_suite", text, "SUITE")

    return write


def fault(environment_id):
    """Makes an environment that can't be made -> the message, which must be one line and name the id."""
    with pytest.raises(EnvironmentFault) as caught:
        make(environment_id)
    message = str(caught.value)
    assert "\n" not in message
    assert f'environment "{environment_id}"' in message
    return message


def test_all_names_of_built_in_suites_have_their_prefix():
    prefixes = ("ALE/", "bsuite/", "dm_control/", "minatar/", "minigrid/", "vector/", "envpool/")
    assert tuple(suite.prefix for suite in SUITES) == prefixes
    for suite in SUITES[:3]:
        suite.load("tests")
        assert len(suite.names()) > 20
        assert all(name.startswith(suite.prefix) for name in suite.names())
        assert find_suite(suite.names()[0]) is suite
        assert find_suite(f"module:{suite.names()[0]}") is suite


@pytest.mark.parametrize("environment_id", ["CartPole-v1", "headrace/Snake-v0", "ALE", "dm_control", "ale/Pong-v5", ""])
def test_other_names_belong_to_no_suite(environment_id):
    assert find_suite(environment_id) is None


def test_a_task_is_made_and_stepped(install):
    install("toys")
    made = make("toys/short", render_mode="rgb_array")
    assert isinstance(made, Corridor)
    assert made.render_mode == "rgb_array"
    batch = make_batch("toys/short", 2, seed=0)
    batch.start()
    steps = [batch.step(np.array([1, 0])) for _ in range(2)]
    assert [step.reward.tolist() for step in steps] == [[0, 0], [1, 0]]
    assert [episode.length for episode in batch.take_episodes()] == [2]


def test_an_environments_metadata_gives_its_stack(install):
    install("toys")
    assert describe("toys/short") == EnvironmentSpec((3,), "float32", 2)
    assert describe("toys/long") == EnvironmentSpec((9,), "float32", 2, stack=2)


def test_name_without_version_is_the_newest(install):
    install("toys")
    assert make("toys/old").observation_space.shape == (5,)


def test_its_defaults_are_those_of_its_environments(install):
    defaults = """
    from headrace.types import EnvironmentDefaults, Sizing
    family = EnvironmentDefaults("r2d2", Sizing(2, 3), "toys", evaluation_episodes=4, steps=7_000)
    defaults = {"toys/...": family, "toys/short": EnvironmentDefaults(note="short")}
"""
    install("toys", more=defaults.strip())
    found = preset("toys/old")
    assert (found.algorithm.name, found.steps, found.sizing, found.note) == ("r2d2", 7_000, Sizing(2, 3), "toys")
    assert (found.evaluation_episodes, found.final_evaluation_episodes) == (4, 100)
    assert (preset("toys/short").algorithm.name, preset("toys/short").note) == ("dqn", "short")
    assert preset("toys/long", "dqn").steps == 7_000
    install("broken", source="raise OSError('no disk')")
    assert preset("broken/short").note == "no preset: the defaults"  # making it says why


def test_a_run_trains_in_it(install, tmp_path):
    """The evaluator, a separate process, finds the suite as well."""
    install("toys")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = (
        "train toys/short --topology serial --envs-per-actor 2 --chunk-steps 10 --steps 300 --learning-starts 50 "
        "--batch-size 16 --replay-capacity 1000 --quiet"
    )
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *words.split(), "--run-dir", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["environment"] == "toys/short"
    assert summary["learner_steps"] > 0
    assert summary["evaluation_episodes"] == 100


def test_unknown_task_suggests_similar_tasks(install):
    install("toys")
    assert fault("toys/shrt").endswith('"toys/shrt" is unknown: did you mean toys/short?')
    assert "did you mean toys/short?" in fault("toyz/short")


def test_unknown_prefix_explains_user_factories():
    assert fault("xyzzy/plugh").endswith(
        '"xyzzy/plugh" is unknown: environments of your own are named package.module:factory, or module:ID if '
        "importing the module registers them"
    )


def test_missing_package_names_what_to_install(install):
    install("needy", more='packages, modules, requirement = "Toyland", ("no_such_toyland",), "needy[toyland]"')
    message = fault("needy/short")
    assert "needs Toyland (No module named 'no_such_toyland')" in message
    assert message.endswith('pip install "needy[toyland]"')


def test_task_that_raises_is_quoted(install):
    install("toys", source=TOYS.replace("cells=CELLS[task]", "cells={{}}[task]"))
    assert "can't be made: KeyError: 'short' (toys_suite.py, line " in fault("toys/short")


def test_a_broken_suite_is_reported_and_does_not_affect_others(install):
    install("broken", source="raise OSError('no\\ndisk')")
    message = fault("broken/short")
    assert 'entry point "broken = broken_suite:SUITE" of headrace.environments' in message
    assert message.endswith("can't be loaded: OSError: no disk (broken_suite.py, line 1)")
    assert "did you mean CartPole-v1" in fault("CartPol-v1")
    assert make("CartPole-v1").spec.id == "CartPole-v1"


@pytest.mark.parametrize("source", ["SUITE = 3", TOYS.replace("{prefix}/", "other/")])
def test_an_entry_point_that_is_not_a_suite_of_its_prefix_is_refused(install, source):
    install("wrong", source=source)
    assert 'a Suite with the prefix "wrong/" is required' in fault("wrong/short")
