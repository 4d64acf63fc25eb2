"""The suites of environments: Atari, the DeepMind Control Suite, and suites of installed packages."""

import contextlib
from importlib.metadata import EntryPoint, entry_points

from headrace.environments.atari import Atari
from headrace.environments.base import Suite
from headrace.environments.bsuite import BSuite
from headrace.environments.dm_control import ControlSuite
from headrace.environments.minatar import MinAtar
from headrace.environments.minigrid import MiniGrid
from headrace.environments.vector_suites import EnvPool, VectorEntryPoints
from headrace.errors import EnvironmentFault, error_line

__all__ = ["SUITES", "find_suite", "known_suites"]

SUITES: tuple[Suite, ...] = (
    Atari(),
    BSuite(),
    ControlSuite(),
    MinAtar(),
    MiniGrid(),
    VectorEntryPoints(),
    EnvPool(),
)
"""The suites of this package."""

_GROUP = "headrace.environments"


def find_suite(environment_id: str) -> Suite | None:
    """Returns the suite of "PREFIX/TASK" or "module:PREFIX/TASK", if there is one.

    An installed package adds a suite with an entry point of the group `headrace.environments`, whose name is PREFIX
    and whose object is a `Suite`. It is loaded only if the prefix or a list of all names is needed. Raises
    EnvironmentFault if it can't be loaded or is not a `Suite` with this prefix.
    """
    name = environment_id.rpartition(":")[2]
    for suite in SUITES:
        if name.startswith(suite.prefix):
            return suite
    prefix, slash, _ = name.partition("/")
    if not slash:
        return None
    return next((_load(entry, environment_id) for entry in entry_points(group=_GROUP, name=prefix)), None)


def known_suites() -> list[Suite]:
    """Returns all suites except those of packages that can't be loaded."""
    suites = list(SUITES)
    for entry in entry_points(group=_GROUP):
        with contextlib.suppress(EnvironmentFault):
            suites.append(_load(entry, entry.name))
    return suites


def _load(entry: EntryPoint, environment_id: str) -> Suite:
    place = f'environment "{environment_id}": entry point "{entry.name} = {entry.value}" of {_GROUP}'
    try:
        suite = entry.load()
    except (Exception, SystemExit) as error:  # importing a package may raise anything
        raise EnvironmentFault(f"{place} can't be loaded: {error_line(error)}") from error
    if not isinstance(suite, Suite) or getattr(suite, "prefix", None) != f"{entry.name}/":
        raise EnvironmentFault(f'{place} is {suite!r:.60}; a Suite with the prefix "{entry.name}/" is required')
    return suite
