"""Where a program's roles run: in threads for tests, otherwise in processes."""

from headrace.launch.base import Exit, Launcher, error_line
from headrace.launch.guard import Guard
from headrace.launch.processes import ProcessLauncher
from headrace.launch.separate_roles import run_separate
from headrace.launch.threads import ThreadLauncher

__all__ = ["Exit", "Guard", "Launcher", "ProcessLauncher", "ThreadLauncher", "error_line", "run_separate"]
