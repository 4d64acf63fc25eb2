"""Where a program's roles run: threads for tests, processes for the rest."""

from headrace.launch.base import Exit, Launcher, last_words
from headrace.launch.processes import ProcessLauncher
from headrace.launch.threads import ThreadLauncher

__all__ = ["Exit", "Launcher", "ProcessLauncher", "ThreadLauncher", "last_words"]
