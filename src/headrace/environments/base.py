"""The contract of a suite: a family of environments whose names share a prefix."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium

from headrace.errors import EnvironmentFault

__all__ = ["Suite"]


class Suite(ABC):
    """Environments named PREFIX/TASK. A suite has no state; any thread may call it.

    `spaces.py` reads the spaces of each environment. An environment whose policy sees the last K frames sets
    `metadata["stack"]` to K and returns single frames. Any exception of a method becomes an EnvironmentFault of one
    line; an EnvironmentFault is passed on unchanged.
    """

    prefix: ClassVar[str]
    """The first part of each name, up to and including the slash: "dm_control/"."""
    packages: ClassVar[str] = ""
    """The packages that the extra installs, for messages: "ale-py and OpenCV"."""
    modules: ClassVar[tuple[str, ...]] = ()
    """The top-level modules of these packages. Gymnasium ids that they register are not suggested to users."""
    requirement: ClassVar[str] = ""
    """The requirement for pip: "headrace[atari]"."""

    def load(self, environment_id: str) -> None:
        """Imports `modules`; raises EnvironmentFault, which names `environment_id`, if one is not installed."""
        try:
            for module in self.modules:
                importlib.import_module(module)
        except ImportError as error:
            raise self.missing(environment_id, error) from error

    def missing(self, environment_id: str, error: ImportError) -> EnvironmentFault:
        """Returns the error that names the missing packages and the command that installs them."""
        return EnvironmentFault(
            f'environment "{environment_id}" needs {self.packages} ({error}): pip install "{self.requirement}"'
        )

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Returns the names of all tasks, including the prefix; called after `load`.

        Errors about unknown names suggest similar names from this list. Users may omit a version at the end ("-v5").
        """

    @abstractmethod
    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates the environment with one of `names`; called after `load`."""
