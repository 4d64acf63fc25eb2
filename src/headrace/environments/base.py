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
    line; an EnvironmentFault stays as it is.
    """

    prefix: ClassVar[str]
    """The first part of each name, up to and including the slash: "dm_control/"."""
    packages: ClassVar[str] = ""
    """The packages that an extra installs, in words: "ale-py and OpenCV"."""
    modules: ClassVar[tuple[str, ...]] = ()
    """The top-level modules of these packages. Ids that they register with Gymnasium are not suggested."""
    requirement: ClassVar[str] = ""
    """What pip installs these packages by: "headrace[atari]"."""

    def load(self, environment_id: str) -> None:
        """Imports `modules`; raises EnvironmentFault, which names `environment_id`, where one is not installed."""
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
        """Returns the names of all tasks, prefix included; called after `load`.

        Errors about unknown names suggest similar ones from it. A version at the end ("-v5") may be left out by users.
        """

    @abstractmethod
    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Makes the environment of one of `names`; called after `load`."""
