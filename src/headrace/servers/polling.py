"""Finds headrace-bypass, the polling server that `make bypass` builds."""

import os
import shutil
import subprocess
import sysconfig

from headrace.errors import ConfigError

__all__ = ["find_polling_server"]

_PROGRAM = "headrace-bypass"
_INSTALL = "run `make bypass` in a checkout of Headrace, which builds it and installs what it needs"


def find_polling_server() -> str:
    """Path of the executable; raises ConfigError if it, or a library that it needs, is missing."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    program = shutil.which(_PROGRAM, path=path)
    if program is None:
        raise ConfigError(f"{_PROGRAM} is not installed: {_INSTALL}")
    checked = subprocess.run([program, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        reason = (checked.stderr.strip().splitlines() or [f"exit code {checked.returncode}"])[-1]
        raise ConfigError(f"{_PROGRAM} does not start ({reason}): {_INSTALL}")
    return program
