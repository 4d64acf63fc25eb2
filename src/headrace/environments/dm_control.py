"""Tasks of the DeepMind Control Suite (Tassa et al. 2018) as Gymnasium environments: "dm_control/DOMAIN-TASK".

Observations are the suite's, flattened in its order to float32 [n]; actions and rewards are unchanged. Episodes are
truncated after 1000 steps; one that ends earlier, with discount 0, is terminated. Simulation needs no OpenGL and
starts no thread. Rendering needs EGL, or the library that MUJOCO_GL names.
"""

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from headrace.environments.base import Suite
from headrace.errors import EnvironmentFault, error_line
from headrace.types import Array, EnvironmentDefaults, Sizing

__all__ = ["ControlSuite", "SuiteTask", "load_suite"]

_GL = "MUJOCO_GL"
_HEIGHT, _WIDTH = 480, 640
_UNBOUNDED = 1e10  # mjMAXVAL: the suite's bound for an actuator without one
_DEFAULTS = {
    "dm_control/cartpole-balance": EnvironmentDefaults(
        "d4pg",
        Sizing(8, 8),
        "1,000 is the maximum return of an episode",
        evaluation_episodes=5,
    ),
    "dm_control/walker-stand": EnvironmentDefaults(
        "d4pg",
        Sizing(8, 8),
        "every state has some reward: values start at 50 and end near 100",
        evaluation_episodes=5,
    ),
    "dm_control/finger-spin": EnvironmentDefaults(
        "d4pg",
        Sizing(8, 8),
        "1,000 is the maximum return of an episode, and each lasts 1,000 steps",
        evaluation_episodes=5,
    ),
    "dm_control/hopper-hop": EnvironmentDefaults(
        "d4pg",
        Sizing(8, 8),
        "nine of ten runs reached 110 after 360,000 to 2,240,000 steps; 1,000 is the maximum return of an episode",
        evaluation_episodes=5,
    ),
    "dm_control/...": EnvironmentDefaults(
        "d4pg",
        Sizing(8, 8),
        "every dm_control/DOMAIN-TASK; 1,000 is the maximum return of an episode, and each lasts 1,000 steps",
        evaluation_period_seconds=60.0,
        evaluation_episodes=5,
    ),
}


class ControlSuite(Suite):
    """The tasks, such as "dm_control/cartpole-balance"."""

    prefix = "dm_control/"
    packages = "dm-control"
    modules = ("dm_control",)
    requirement = "headrace[dm_control]"
    defaults = _DEFAULTS

    def load(self, environment_id: str) -> None:
        """Imports the suite without OpenGL; see `load_suite`."""
        load_suite(environment_id)

    def names(self) -> list[str]:
        """Names of all tasks."""
        return [f"{self.prefix}{domain}-{task}" for domain, task in load_suite(self.prefix).ALL_TASKS]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates a task."""
        return SuiteTask(load_suite(name), name, render_mode)


def load_suite(environment_id: str) -> ModuleType:
    """Imports the suite; raises EnvironmentFault if the extra is not installed or can't be loaded.

    If MUJOCO_GL is not set, the search for an OpenGL library is skipped: it doubles the time and may fail.
    """
    try:
        with _gl("disabled"):
            suite: ModuleType = importlib.import_module("dm_control.suite")
    except ModuleNotFoundError as error:
        raise ControlSuite().missing(environment_id, error) from error
    except Exception as error:  # a wrong MUJOCO_GL; OpenGL libraries may raise anything
        raise EnvironmentFault(
            f'environment "{environment_id}": dm-control can\'t be loaded ({_GL} is {_gl_setting()}): '
            f"{error_line(error)}"
        ) from error
    return suite


class SuiteTask(gymnasium.Env[NDArray[np.float32], Array]):
    """One task. `reset(seed=s)` always starts the same episode, bit for bit. One thread."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, suite: ModuleType, name: str, render_mode: str | None = None) -> None:
        self._name = name
        self._check_render_mode(render_mode)
        self.render_mode = render_mode
        domain, _, task = name.removeprefix(ControlSuite.prefix).partition("-")
        self._random = np.random.RandomState(0)  # the type that the suite expects; lqr draws its model from it
        with _quiet():
            self._task = suite.load(domain, task, task_kwargs={"random": self._random})
        self._random.seed()
        self._prepare_drawing(self._task.physics)
        self.metadata = {**self.metadata, "render_fps": round(1 / self._task.control_timestep())}
        action = self._task.action_spec()
        low, high = (np.broadcast_to(bound, action.shape) for bound in (action.minimum, action.maximum))
        self.action_space = spaces.Box(
            np.where(low <= -_UNBOUNDED, -np.inf, low), np.where(high >= _UNBOUNDED, np.inf, high), dtype=np.float64
        )
        shapes = [part.shape for part in self._task.observation_spec().values()]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()
        self._buffer = np.empty(ends[-1], np.float32)
        self._parts = [
            self._buffer[begin:end].reshape(shape) for begin, end, shape in zip([0, *ends], ends, shapes, strict=False)
        ]
        self.observation_space = spaces.Box(-np.inf, np.inf, self._buffer.shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts the episode of `seed` (32 bits), or the generator's next one without a seed."""
        if seed is not None:
            self._random.seed(seed)
        return self._flatten(self._task.reset().observation), {}

    def step(self, action: Array) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one control step. After the end of an episode, `reset` must be called first."""
        step = self._task.step(action)
        last = step.last()
        terminated = last and step.discount == 0
        return self._flatten(step.observation), step.reward, terminated, last and not terminated, {}

    def render(self) -> NDArray[np.uint8]:
        """Renders the first camera's view: uint8 [480, 640, 3]."""
        image: NDArray[np.uint8] = self._task.physics.render(_HEIGHT, _WIDTH, camera_id=0)
        return image

    def close(self) -> None:
        """Frees the simulation."""
        self._task.close()

    def _flatten(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        for part, value in zip(self._parts, observation.values(), strict=True):
            part[...] = value
        return self._buffer.copy()

    def _check_render_mode(self, render_mode: str | None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise EnvironmentFault(
                f'environment "{self._name}": render_mode is "{render_mode}"; it must be "rgb_array"'
            )

    def _prepare_drawing(self, physics: Any) -> None:
        """Creates an OpenGL context if the task is to be rendered; raises EnvironmentFault if that fails."""
        if self.render_mode is None:
            # quadruped-escape asks for the context even if it is not rendered, which would create one.
            physics.__class__ = type("Undrawn", (type(physics),), {"contexts": None})
            return
        try:
            _load_renderer()
            _ = physics.contexts
        except Exception as error:  # OpenGL libraries may raise anything
            raise EnvironmentFault(
                f'environment "{self._name}" can\'t be drawn ({_GL} is {_gl_setting()}): {error_line(error)}'
            ) from error


@contextlib.contextmanager
def _gl(backend: str) -> Iterator[None]:
    """Sets MUJOCO_GL, if it is not set, while modules are imported."""
    if _GL in os.environ:
        yield
        return
    os.environ[_GL] = backend
    try:
        yield
    finally:
        del os.environ[_GL]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps warnings about the suite's models out of the actors' output."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _load_renderer() -> None:
    """Makes dm-control choose its renderer again, as at import; EGL if MUJOCO_GL is not set."""
    renderers = sys.modules["dm_control._render"]
    if _GL not in os.environ and renderers.BACKEND != "egl":
        with _gl("egl"):
            importlib.reload(renderers)


def _gl_setting() -> str:
    return os.environ.get(_GL, "not set")
