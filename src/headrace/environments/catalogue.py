"""Creates environments from their ids: Gymnasium's registry, user factories, suites."""

import contextlib
import difflib
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from headrace.environments import memory, reach, snake, wheels
from headrace.environments.base import Suite, VectorSuite
from headrace.environments.calls import calling
from headrace.environments.names import newest
from headrace.environments.suites import find_suite, known_suites
from headrace.errors import ConfigError, EnvironmentFault, error_line
from headrace.imports import import_user_module

__all__ = ["make", "make_vector"]

snake.register()
memory.register()
reach.register()
wheels.register()


def make(environment_id: str, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Creates one environment.

    The id is one of Gymnasium's ("CartPole-v1", "module:Id-v0"), Headrace's own (such as "headrace/Snake-v0"), a task
    of a suite ("ALE/Breakout-v5", "dm_control/cartpole-balance", see `headrace.environments.suites`), or
    "package.module:factory": a callable that returns a gymnasium.Env. The module may be in the current directory. The
    name after the colon is a factory if the module has such an attribute.

    Raises EnvironmentFault, with a message of one line, if the environment can't be created.
    """
    with calling(f'environment "{environment_id}": its constructor'):
        return _make(environment_id, render_mode)


def make_vector(environment_id: str, count: int, seed: int) -> VectorEnv[Any, Any, Any]:
    """Creates E environments of a `VectorSuite`, whose first reset() gets the same seed; raises as `make` does."""
    module_name, colon, name = environment_id.rpartition(":")
    if colon:
        _import(environment_id, module_name)
    suite = find_suite(environment_id)
    assert isinstance(suite, VectorSuite)
    found = _find_task(suite, environment_id, name)
    with _faults(environment_id):
        return suite.make_vector(found, count, seed)


def _make(environment_id: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    if render_mode == "rgb_array":  # pygame draws into memory: it needs no screen and no audio device
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    module_name, colon, name = environment_id.rpartition(":")
    module = _import(environment_id, module_name) if colon else None
    if module is not None and hasattr(module, name):
        return _call_factory(environment_id, getattr(module, name), render_mode)
    suite = find_suite(environment_id)
    if suite is not None:
        return _make_suite_task(suite, environment_id, name, render_mode)
    return _make_registered(environment_id, name, module, render_mode)


def _import(environment_id: str, module_name: str) -> ModuleType:
    try:
        return import_user_module(module_name)
    except (ConfigError, EnvironmentFault):
        raise
    except (Exception, SystemExit) as error:  # importing a user's module may raise anything
        hint = f" (write {module_name.removesuffix('.py')}, without .py)" if module_name.endswith(".py") else ""
        raise EnvironmentFault(
            f'environment "{environment_id}": module "{module_name}" can\'t be imported: {error_line(error)}{hint}'
        ) from error


def _call_factory(environment_id: str, factory: Any, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    if not callable(factory):
        raise EnvironmentFault(
            f'environment "{environment_id}" is {type(factory).__name__} {factory!r:.60}; '
            "a callable that returns a gymnasium.Env is required"
        )
    options = {} if render_mode is None else {"render_mode": render_mode}
    if options and not _takes_render_mode(factory):
        raise EnvironmentFault(
            f'environment "{environment_id}": its factory takes no render_mode; '
            f'it must take render_mode="{render_mode}" to be drawn'
        )
    try:
        environment = factory(**options)
    except EnvironmentFault:
        raise
    except (Exception, SystemExit) as error:  # a user's factory may raise anything
        raise EnvironmentFault(f'environment "{environment_id}": its factory raised {error_line(error)}') from error
    if not isinstance(environment, gymnasium.Env):
        raise EnvironmentFault(
            f'environment "{environment_id}": its factory returned {type(environment).__name__}; '
            "a gymnasium.Env is required"
        )
    return environment


def _takes_render_mode(factory: Any) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # built in: no signature to read
        return True
    return "render_mode" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _make_suite_task(suite: Suite, environment_id: str, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    found = _find_task(suite, environment_id, name)
    with _faults(environment_id):
        return suite.make(found, render_mode)


def _find_task(suite: Suite, environment_id: str, name: str) -> str:
    found = newest(name, _task_names(suite, environment_id))
    if found is None:
        raise EnvironmentFault(_unknown(environment_id, name, None))
    return found


def _task_names(suite: Suite, environment_id: str) -> Sequence[str]:
    with _faults(environment_id):
        suite.load(environment_id)
        return suite.names()


def _make_registered(
    environment_id: str, name: str, module: ModuleType | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    found = newest(name, gymnasium.registry)
    if found is None:
        raise EnvironmentFault(_unknown(environment_id, name, module))
    options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    spec = gymnasium.registry[found]
    with _faults(environment_id, spec), _without_model_warnings(spec):
        # EnvironmentBatch checks at every step what Gymnasium's checker checks, and faster.
        return gymnasium.make(found, disable_env_checker=True, **options)


@contextlib.contextmanager
def _without_model_warnings(spec: EnvSpec) -> Iterator[None]:
    """Keeps MuJoCo's warnings about Gymnasium's own models out of the actors' output."""
    if not _is_in(spec, "mujoco"):
        yield
        return
    try:
        import mujoco
    except ImportError as error:
        raise gymnasium.error.DependencyNotInstalled(str(error)) from error
    warn = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(warn)


def _is_in(spec: EnvSpec, family: str) -> bool:
    """Whether an environment belongs to a family of Gymnasium's own, such as "box2d"."""
    return str(spec.entry_point).startswith(f"gymnasium.envs.{family}.")


@contextlib.contextmanager
def _faults(environment_id: str, spec: EnvSpec | None = None) -> Iterator[None]:
    """Turns any exception of an environment's constructor, or of its suite, into an error of one line."""
    try:
        yield
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentFault(_missing_dependency(environment_id, spec, error)) from error
    except EnvironmentFault:
        raise
    except (Exception, SystemExit) as error:  # a third party's constructor may raise anything
        raise EnvironmentFault(f'environment "{environment_id}" can\'t be made: {error_line(error)}') from error


def _unknown(environment_id: str, name: str, module: ModuleType | None) -> str:
    if module is not None and name.isidentifier():
        near = _close(name, [key for key, value in vars(module).items() if callable(value)])
        found = f'module "{module.__name__}" has no "{name}"' + (f"; did you mean {near}?" if near else "")
        return f'environment "{environment_id}": {found}'
    near = next((found for ids in _known_ids(name) if (found := _close(name, ids))), "")
    own = (
        "environments of your own are named package.module:factory, or module:ID if importing the module registers them"
    )
    hint = f"did you mean {near}?" if near else own
    return f'environment "{environment_id}" is unknown: {hint}'


def _known_ids(name: str) -> Iterator[list[str]]:
    """Yields the names of suites with a similar prefix, then Gymnasium's ids and the names of every suite.

    On a cold disk, importing all suites takes a minute. Those that can't be loaded are left out. A suite's module may
    register more ids with Gymnasium when it is imported, as ale_py does ("Breakout-v4"). They are left out, too.
    """
    suites = {suite.prefix.lower(): suite for suite in known_suites()}
    prefix, slash, _ = name.lower().partition("/")
    likely = difflib.get_close_matches(prefix + slash, suites) if slash else []
    yield _all_tasks(suites[each] for each in likely)
    modules = {module for suite in suites.values() for module in suite.modules}
    tasks = _all_tasks(suites.values())
    known = [
        spec.id for spec in gymnasium.registry.values() if re.split("[.:]", str(spec.entry_point))[0] not in modules
    ]
    yield known + tasks


def _all_tasks(suites: Iterable[Suite]) -> list[str]:
    names: list[str] = []
    for suite in suites:
        with contextlib.suppress(EnvironmentFault):
            names += _task_names(suite, "")
    return names


def _close(name: str, candidates: list[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    return " or ".join(by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3))


def _missing_dependency(environment_id: str, spec: EnvSpec | None, error: Exception) -> str:
    if spec is not None and _is_in(spec, "mujoco"):
        return f'environment "{environment_id}" needs MuJoCo, which is not installed: pip install "headrace[mujoco]"'
    if spec is not None and _is_in(spec, "box2d"):
        command = 'pip install "headrace[box2d]"'
        if sys.version_info >= (3, 14):  # box2d has no wheels; pip hides SWIG from isolated builds
            command += ' "swig==4.*" setuptools wheel && pip install --no-build-isolation box2d-py==2.3.8 (compiles it)'
        return f'environment "{environment_id}" needs Box2D and pygame, which are not both installed: {command}'
    return f'environment "{environment_id}" needs a package that is not installed: {" ".join(str(error).split())}'
