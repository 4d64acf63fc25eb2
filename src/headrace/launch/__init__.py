"""Where a program's roles run: in threads for tests, otherwise in processes."""

from headrace.launch.base import Exit, Launcher, last_words
from headrace.launch.guard import Guard
from headrace.launch.processes import ProcessLauncher
from headrace.launch.threads import ThreadLauncher
from headrace.launch.volunteers import run_actors

__all__ = ["Exit", "Guard", "Launcher", "ProcessLauncher", "ThreadLauncher", "last_words", "run_actors"]
