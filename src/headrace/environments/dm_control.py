"""Tasks of the DeepMind Control Suite (Tassa et al. 2018), as Gymnasium environments: "dm_control/DOMAIN-TASK".

Observations are the suite's, flattened in its order to float32 [n]; actions and rewards are its own. An episode of
1000 steps is truncated; what ends before, with discount 0, terminated. Simulation needs no OpenGL, and starts no
thread; drawing needs EGL or what MUJOCO_GL says.
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
from headrace.errors import EnvironmentFault
from headrace.types import Array

__all__ = ["ControlSuite", "SuiteTask", "load_suite"]

_GL = "MUJOCO_GL"
_HEIGHT, _WIDTH = 480, 640
_UNBOUNDED = 1e10  # mjMAXVAL, which the suite gives as the bound of an actuator that has none


class ControlSuite(Suite):
    """The tasks, as "dm_control/cartpole-balance"."""

    prefix = "dm_control/"
    packages = "dm-control"
    modules = ("dm_control",)
    requirement = "headrace[dm_control]"

    def load(self, environment_id: str) -> None:
        """Imports the suite, without OpenGL: see `load_suite`."""
        load_suite(environment_id)

    def names(self) -> list[str]:
        """Names of all tasks."""
        return [f"{self.prefix}{domain}-{task}" for domain, task in load_suite(self.prefix).ALL_TASKS]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Makes a task."""
        return SuiteTask(load_suite(name), name, render_mode)


def load_suite(environment_id: str) -> ModuleType:
    """Imports the suite; raises EnvironmentFault where the extra is not installed or can't be loaded.

    Without MUJOCO_GL no OpenGL library is looked for: that takes as long as the import itself, and may fail.
    """
    try:
        with _gl("disabled"):
            suite: ModuleType = importlib.import_module("dm_control.suite")
    except ModuleNotFoundError as error:
        raise ControlSuite().missing(environment_id, error) from error
    except Exception as error:  # a wrong MUJOCO_GL, or OpenGL libraries that fail in ways of their own
        raise EnvironmentFault(
            f'environment "{environment_id}": dm-control can\'t be loaded ({_GL} is {_gl_setting()}): '
            f"{_one_line(error)}"
        ) from error
    return suite


class SuiteTask(gymnasium.Env[NDArray[np.float32], Array]):
    """One task. `reset(seed=s)` begins the same episode bit for bit whatever went before; one thread."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(self, suite: ModuleType, name: str, render_mode: str | None = None) -> None:
        self._name = name
        self._check_render_mode(render_mode)
        self.render_mode = render_mode
        domain, _, task = name.removeprefix(ControlSuite.prefix).partition("-")
        self._random = np.random.RandomState(0)  # the kind that the suite takes; lqr draws its model from it
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
        """Begins an episode: the one that `seed`, of 32 bits, says, else the generator's next."""
        if seed is not None:
            self._random.seed(seed)
        return self._flatten(self._task.reset().observation), {}

    def step(self, action: Array) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Takes one control step. After an episode's end, `reset` must come first."""
        step = self._task.step(action)
        last = step.last()
        terminated = last and step.discount == 0
        return self._flatten(step.observation), step.reward, terminated, last and not terminated, {}

    def render(self) -> NDArray[np.uint8]:
        """Draws the first camera's view: uint8 [480, 640, 3]."""
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
                f'environment "{self._name}": render_mode is "{render_mode}"; "rgb_array" is the one there is'
            )

    def _prepare_drawing(self, physics: Any) -> None:
        """Makes an OpenGL context where the task is to be drawn; raises EnvironmentFault where there can be none."""
        if self.render_mode is None:
            # quadruped-escape asks for the context of a simulation that nobody draws, which would make one.
            physics.__class__ = type("Undrawn", (type(physics),), {"contexts": None})
            return
        try:
            _load_renderer()
            _ = physics.contexts
        except Exception as error:  # OpenGL fails in many ways
            raise EnvironmentFault(
                f'environment "{self._name}" can\'t be drawn ({_GL} is {_gl_setting()}): {_one_line(error)}'
            ) from error


@contextlib.contextmanager
def _gl(backend: str) -> Iterator[None]:
    """Sets MUJOCO_GL where it isn't, for as long as modules are imported."""
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
    """Keeps warnings about the suite's own models out of every actor's output."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _load_renderer() -> None:
    """Has dm-control choose its renderer again, as it does when imported; EGL where MUJOCO_GL is not set."""
    renderers = sys.modules["dm_control._render"]
    if _GL not in os.environ and renderers.BACKEND != "egl":
        with _gl("egl"):
            importlib.reload(renderers)


def _gl_setting() -> str:
    return os.environ.get(_GL, "not set")


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
