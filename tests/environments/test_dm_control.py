"""Tasks of the control suite, against the suite itself."""

import os
import subprocess
import sys

import numpy as np
import pytest

from headrace.environments import describe, make, make_batch
from headrace.environments.dm_control import load_suite
from headrace.errors import EnvironmentFault
from headrace.types import EnvironmentSpec

SUITE = load_suite("tests")


def play(environment, steps, seed=None):
    """Random actions -> all observations and rewards of an episode, in one array."""
    random = np.random.default_rng(0)
    rows = [environment.reset(seed=seed)[0]]
    for _ in range(steps):
        observation, reward, _, _, _ = environment.step(random.uniform(-1, 1, environment.action_space.shape))
        rows += [observation, [reward]]
    return np.concatenate(rows)


@pytest.mark.parametrize(
    ("task", "observation", "actions"),
    [("cartpole-balance", 5, 1), ("ball_in_cup-catch", 8, 2), ("cheetah-run", 17, 6), ("humanoid_CMU-run", 137, 56)],
)
def test_describes(task, observation, actions):
    spec = EnvironmentSpec((observation,), "float32", actions, continuous=True)
    assert describe(f"dm_control/{task}") == spec


def test_episodes_equal_those_of_the_suite():
    """Scalars between vectors (the walker's height) keep their place."""
    ours = make("dm_control/walker-walk")
    theirs = SUITE.load("walker", "walk", task_kwargs={"random": 3})
    random = np.random.default_rng(1)
    observation, expected = ours.reset(seed=3)[0], theirs.reset()
    for _ in range(50):
        parts = [np.ravel(part) for part in expected.observation.values()]
        assert [len(part) for part in parts] == [14, 1, 9]
        assert observation.dtype == np.float32
        np.testing.assert_array_equal(observation, np.concatenate(parts).astype(np.float32))
        action = random.uniform(-1, 1, 6)
        observation, reward, terminated, truncated, _ = ours.step(action)
        expected = theirs.step(action)
        assert (reward, terminated, truncated) == (expected.reward, False, False)


@pytest.mark.parametrize("task", ["cartpole-swingup", "quadruped-escape", "finger-turn_hard", "point_mass-hard"])
def test_a_seed_determines_the_episode(task):
    """Includes tasks that change the model (terrain, targets, gains) at the start of an episode."""
    fresh, used = make(f"dm_control/{task}"), make(f"dm_control/{task}")
    other = play(used, 30, seed=8)
    play(used, 7)
    expected = play(fresh, 30, seed=7)
    np.testing.assert_array_equal(play(used, 30, seed=7), expected)
    assert not np.array_equal(other, expected)


def test_without_a_seed_the_generator_continues():
    first, second, unseeded = (make("dm_control/cartpole-swingup") for _ in range(3))
    for environment in (first, second):
        environment.reset(seed=1)
    episodes = [play(first, 2) for _ in range(2)]
    np.testing.assert_array_equal(episodes, [play(second, 2) for _ in range(2)])
    assert not np.array_equal(*episodes)
    assert not np.array_equal(play(unseeded, 2), episodes[0])


def test_the_thousandth_step_truncates():
    environment = make("dm_control/cartpole-balance")
    environment.reset(seed=0)
    ends = [environment.step(np.zeros(1))[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]


@pytest.mark.parametrize(("discount", "end"), [(0.0, (True, False)), (1.0, (False, True)), (None, (False, False))])
def test_discount_zero_terminates(monkeypatch, discount, end):
    monkeypatch.setattr(SUITE.cartpole.Balance, "get_termination", lambda self, physics: discount)
    environment = make("dm_control/cartpole-balance")
    environment.reset(seed=0)
    assert environment.step(np.zeros(1))[2:4] == end


def test_a_batch_maps_canonical_actions_to_the_suites_bounds():
    """The quadruped's: each leg has a yaw of -1 to 1, a lift of -1 to 1.1 and an extension of -0.8 to 0.8."""
    batch = make_batch("dm_control/quadruped-walk", 2, seed=0)
    batch.start()
    batch.step(np.array([[-1.0] * 12, [0.5] * 12], np.float32))
    control = [environment._task.physics.data.ctrl.tolist() for environment in batch._environments]
    np.testing.assert_allclose(control[0], [-1.0, -1.0, -0.8] * 4, rtol=1e-12)
    np.testing.assert_allclose(control[1], [0.5, 0.575, 0.4] * 4, rtol=1e-12)


def test_actions_without_bounds_are_refused():
    with pytest.raises(
        EnvironmentFault, match=r'"dm_control/lqr-lqr_2_1": action_space.low\[0\] is -inf; every action'
    ):
        describe("dm_control/lqr-lqr_2_1")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("dm_control/cartpole-blance", "dm_control/cartpole-balance"),
        ("dm_control/cartpole_balance", "dm_control/cartpole-balance"),
        ("dm_control/cup-catch", "dm_control/ball_in_cup-catch"),
        ("dm_control/Humanoid-Stand", "dm_control/humanoid-stand"),
        ("cheetah-run", "dm_control/cheetah-run"),
    ],
)
def test_unknown_task_suggests_similar_tasks(wrong, near):
    with pytest.raises(EnvironmentFault) as caught:
        make(wrong)
    assert str(caught.value).startswith(f'environment "{wrong}" is unknown: did you mean ')
    assert near in str(caught.value)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control.suite", None)
    with pytest.raises(EnvironmentFault) as caught:
        make("dm_control/cartpole-balance")
    assert str(caught.value).startswith('environment "dm_control/cartpole-balance" needs dm-control')
    assert str(caught.value).endswith('pip install "headrace[dm_control]"')


def run(program, **environment):
    """Runs a program in a separate process, with MUJOCO_GL as given or not set -> its stdout and stderr together."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=inherited | environment
    )
    return done.stdout + done.stderr


def test_acting_loads_no_opengl_starts_no_thread_and_prints_nothing():
    program = """
import os, sys
import numpy as np
from headrace.environments import make
before = len(os.listdir("/proc/self/task"))
environment = make("dm_control/cheetah-run")
environment.reset(seed=0)
for _ in range(100):
    environment.step(np.ones(6))
print(len(os.listdir("/proc/self/task")) - before, "OpenGL" in sys.modules, "MUJOCO_GL" in os.environ)
"""
    assert run(program, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") == "0 False False\n"


DRAW = """
from headrace.environments import make
from headrace.errors import EnvironmentFault
make("dm_control/walker-walk").reset(seed=0)  # the suite is there before anything is drawn
try:
    environment = make("dm_control/walker-walk", render_mode="rgb_array")
    environment.reset(seed=0)
    image = environment.render()
    print(image.shape, image.dtype, image.std() > 1, environment.metadata["render_fps"])
except EnvironmentFault as fault:
    print(fault)
"""


def test_it_renders_or_explains_why_not():
    said = run(DRAW)
    fault = 'environment "dm_control/walker-walk" can\'t be drawn (MUJOCO_GL is not set): '
    assert said == "(480, 640, 3) uint8 True 40\n" or said.startswith(fault)


def test_a_task_that_requests_opengl_works_without_it():
    """quadruped-escape uploads its terrain to the renderer."""
    program = """
from headrace.environments import make
environment = make("dm_control/quadruped-escape")
print(environment.reset(seed=0)[0].shape)
environment.close()
"""
    assert run(program, MUJOCO_GL="disabled") == "(101,)\n"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"MUJOCO_GL": "disabled"}, "MUJOCO_GL is disabled): RuntimeError: No OpenGL rendering backend is available."),
        ({"PYOPENGL_PLATFORM": "osmesa"}, "MUJOCO_GL is not set): ImportError: Cannot use EGL"),
    ],
)
def test_without_opengl_nothing_is_drawn(setting, problem):
    said = run(DRAW, **setting)
    assert said.startswith(f'environment "dm_control/walker-walk" can\'t be drawn ({problem}')
    assert said.count("\n") == 1


def test_a_wrong_mujoco_gl_is_quoted():
    program = "from headrace.environments import make\nmake('dm_control/walker-walk')"
    said = run(program, MUJOCO_GL="vulkan").splitlines()[-1]
    assert "dm-control can't be loaded (MUJOCO_GL is vulkan): RuntimeError: Environment variable MUJOCO_GL must" in said


def test_rendering_opens_no_window():
    with pytest.raises(EnvironmentFault, match='render_mode is "human"; it must be "rgb_array"'):
        make("dm_control/walker-walk", render_mode="human")
