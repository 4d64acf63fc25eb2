"""Environments made from ids, and the errors for ids that can't be made."""

import re
import sys

import gymnasium
import numpy as np
import pytest

from headrace import environments
from headrace.environments import catalogue, toy
from headrace.environments.catalogue import make
from headrace.errors import EnvironmentFault


def fault(environment_id, **options):
    """Makes an environment that can't be made -> the message, which must be one line and name the id."""
    with pytest.raises(EnvironmentFault) as caught:
        make(environment_id, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert f'environment "{environment_id}"' in message
    return message


def test_exports_match_all():
    for name in environments.__all__:
        assert hasattr(environments, name)
    assert environments.__all__ == sorted(environments.__all__)


@pytest.mark.parametrize("environment_id", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3"])
def test_makes_environments_registered_with_gymnasium(environment_id):
    environment = make(environment_id)
    assert environment.spec.id == environment_id
    assert environment.spec.max_episode_steps == gymnasium.registry[environment_id].max_episode_steps
    environment.close()


def test_id_without_version_is_the_newest():
    assert make("CartPole").spec.id == "CartPole-v1"


def test_module_and_id_registers_first(own_module):
    name = own_module("""
        import gymnasium
        gymnasium.register(id="OwnRegistered-v3", entry_point="headrace.environments.toy:Corridor", max_episode_steps=9)
    """)
    environment = make(f"{name}:OwnRegistered-v3")
    assert isinstance(environment.unwrapped, toy.Corridor)
    assert environment.spec.max_episode_steps == 9


def test_factory_in_a_package():
    assert isinstance(make("headrace.environments.toy:Corridor"), toy.Corridor)


def test_factory_in_the_current_directory(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        def short():
            return Corridor(cells=3)
    """)
    assert make(f"{name}:short").observation_space.shape == (3,)


def test_an_attribute_wins_over_an_id_of_the_same_name(own_module):
    name = own_module("""
        import gymnasium
        from headrace.environments.toy import Corridor, Frames
        gymnasium.register(id="Both", entry_point="headrace.environments.toy:Frames")
        Both = Corridor
    """)
    assert isinstance(make(f"{name}:Both"), toy.Corridor)
    del gymnasium.registry["Both"]


def test_render_mode_reaches_ids_and_factories():
    assert make("headrace.environments.toy:Corridor", render_mode="rgb_array").render_mode == "rgb_array"
    environment = make("CartPole-v1", render_mode="rgb_array")
    environment.reset(seed=0)
    assert environment.render().dtype == np.uint8


def test_factory_without_a_render_mode_is_refused():
    assert "takes no render_mode" in fault("headrace.environments.toy:Frames", render_mode="rgb_array")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("LunarLander-v9", "LunarLander-v3"),
        ("LunarLander-v2", "LunarLander-v3"),
        ("lunarlander-v3", "LunarLander-v3"),
        ("CartPol-v1", "CartPole-v1"),
        ("ALE/Breakot-v5", "ALE/Breakout-v5"),
        ("Breakout-v5", "ALE/Breakout-v5"),
    ],
)
def test_unknown_id_suggests_similar_ids(wrong, near):
    message = fault(wrong)
    assert "is unknown: did you mean" in message
    assert near in message


def test_a_similar_prefix_imports_no_other_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them may take a minute."""
    asked: list[str] = []
    names = catalogue._task_names
    monkeypatch.setattr(catalogue, "_task_names", lambda suite, id_: asked.append(suite.prefix) or names(suite, id_))
    assert "did you mean dm_control/cheetah-run" in fault("DM-Control/cheeta-run")
    assert asked == ["dm_control/"]


@pytest.mark.parametrize("wrong", ["Xyzzyplugh-v0", "a b", ""])
def test_unknown_id_without_similar_ids_explains_user_factories(wrong):
    assert "package.module:factory" in fault(wrong)


def test_factory_that_the_module_does_not_have():
    assert 'has no "Coridor"; did you mean Corridor?' in fault("headrace.environments.toy:Coridor")


def test_factory_that_is_not_callable(own_module):
    message = fault(own_module("factory = 3") + ":factory")
    assert "is int 3; a callable that returns a gymnasium.Env is required" in message


def test_factory_that_returns_no_environment(own_module):
    message = fault(own_module("def factory():\n    return [1]") + ":factory")
    assert "its factory returned list; a gymnasium.Env is required" in message


def test_factory_that_raises_is_quoted(own_module):
    message = fault(own_module("def factory():\n    raise ValueError('level 4\\nis missing')") + ":factory")
    assert re.search(
        r"its factory raised ValueError: level 4 is missing \(own_environments_\d+\.py, line 2\)$", message
    )


def test_missing_module():
    assert "can't be imported: ModuleNotFoundError: No module named 'no_such_module'" in fault("no_such_module:factory")
    assert fault("no_such_module.py:factory").endswith("(write no_such_module, without .py)")


def test_module_that_fails_is_quoted(own_module):
    message = fault(own_module("import numpy\n1 / 0") + ":factory")
    assert re.search(r"imported: ZeroDivisionError: division by zero \(own_environments_\d+\.py, line 2\)$", message)


def test_constructor_that_raises_is_quoted(own_module):
    name = own_module("""
        import gymnasium
        def broken(**options):
            raise OSError("no license")
        gymnasium.register(id="OwnBroken-v0", entry_point=broken)
    """)
    assert "can't be made: OSError: no license (own_environments_" in fault(f"{name}:OwnBroken-v0")


def test_missing_box2d_names_the_extra(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.setattr(sys, "version_info", (3, 13))
    assert fault("LunarLander-v3").endswith('pip install "headrace[box2d]"')
    monkeypatch.setattr(sys, "version_info", (3, 14))
    assert 'pip install "headrace[box2d]" "swig==4.*"' in fault("LunarLander-v3")


def test_missing_mujoco_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert fault("HalfCheetah-v5").endswith('pip install "headrace[mujoco]"')


def test_warnings_about_mujoco_models_are_not_printed(capfd):
    mujoco = pytest.importorskip("mujoco")
    before = mujoco.get_mju_user_warning()
    make("HalfCheetah-v5").close()
    assert "WARNING" not in "".join(capfd.readouterr())
    assert mujoco.get_mju_user_warning() is before


@pytest.mark.parametrize("module", ["ale_py", "cv2"])
def test_missing_atari_names_the_extra(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert fault("ALE/Breakout-v5").endswith('pip install "headrace[atari]"')


def test_another_missing_package_is_quoted(own_module):
    name = own_module("""
        import gymnasium
        def needy(**options):
            raise gymnasium.error.DependencyNotInstalled("run `pip install needed`")
        gymnasium.register(id="OwnNeedy-v0", entry_point=needy)
    """)
    assert "needs a package that is not installed: run `pip install needed`" in fault(f"{name}:OwnNeedy-v0")
