"""The contract of every launcher: its settings, and what it answers for itself."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.fields import write_fields
from headrace.launch.base import Site
from headrace.launch.processes import ProcessLauncher
from headrace.launch.registry import LAUNCHERS

__all__ = ["LauncherConfig", "Processes"]


@dataclass(frozen=True)
class LauncherConfig(ABC):
    """Settings of a launcher, and what it answers for itself. It is registered by name (`launch/registry.py`)."""

    name: ClassVar[str]
    """Name on the command line and in files."""
    summary: ClassVar[str]
    """What --help says of it, in a few words."""

    @property
    def server_setting(self) -> str:
        """The setting by which it starts a server for the run, instead of one in the training process; empty if not."""
        return ""

    @property
    def takes_server(self) -> bool:
        """Whether a run may use a separate server."""
        return True

    @property
    def local(self) -> bool:
        """Whether all roles run on this machine."""
        return True

    @property
    def repeatable(self) -> bool:
        """Whether the same seed gives the same run, and the same failure."""
        return False

    @abstractmethod
    def open(self, seed: int = 0) -> AbstractContextManager[Site]:
        """A context in which roles can be started; `seed` is the run's. Raises ConfigError or LaunchError."""

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON, with the launcher's name."""
        return {"name": LAUNCHERS.name_of(self), **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "LauncherConfig":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return LAUNCHERS.read(record)


@dataclass(frozen=True)
class Processes(LauncherConfig):
    """Processes on this machine."""

    name: ClassVar[str] = "processes"
    summary: ClassVar[str] = "processes on this machine"

    @contextlib.contextmanager
    def open(self, seed: int = 0) -> Iterator[Site]:
        """This machine, on which roles reach the run's server by a Unix socket."""
        yield Site(ProcessLauncher)
