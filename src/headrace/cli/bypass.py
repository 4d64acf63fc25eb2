"""The polling server: `headrace serve --listen dpdk:...` is replaced by the executable headrace-bypass."""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NoReturn

from headrace.errors import ConfigError
from headrace.servers import shown

__all__ = ["MOST_CONNECTIONS", "Poll", "is_bypass", "start"]

Poll = Literal["adaptive", "always"]
"""Whether the polling thread naps while there is nothing to do."""

MOST_CONNECTIONS = 4096
"""That its TCP has room for."""
_SCHEME = "dpdk:"
_PROGRAM = "headrace-bypass"
_INSTALL = "run `make bypass` in a checkout of Headrace, which builds it and installs what it needs"


def is_bypass(address: str) -> bool:
    """Whether an address is served without the kernel's network stack."""
    return address.startswith(_SCHEME)


def start(
    addresses: Sequence[str],
    *,
    memory_bytes: int,
    data: Path | None,
    shard_save_seconds: float,
    max_connections: int,
    token_file: Path | None,
    poll: Poll,
) -> NoReturn:
    """Replaces this process by the polling server; `addresses` may be of every kind that it can listen on.

    Raises ConfigError if the executable, or a library that it needs, is missing.
    """
    program = _find(next(filter(is_bypass, addresses)))
    words = [word for address in addresses for word in ("--listen", address)]
    words += ["--memory", str(memory_bytes), "--shard-save-period", repr(shard_save_seconds), "--poll", poll]
    words += ["--max-connections", str(max_connections)]
    words += ["--data", str(data)] if data else []
    words += ["--token-file", str(token_file)] if token_file else []
    os.execv(program, [program, *words])


def _find(address: str) -> str:
    """The executable, which starts; `address` requires it."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
    program = shutil.which(_PROGRAM, path=path)
    if program is None:
        raise ConfigError(f"listen is {shown(address)}; it requires {_PROGRAM}, which is not installed: {_INSTALL}")
    checked = subprocess.run([program, "--check"], capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        reason = (checked.stderr.strip().splitlines() or [f"exit code {checked.returncode}"])[-1]
        raise ConfigError(f"listen is {shown(address)}; {_PROGRAM} does not start ({reason}): {_INSTALL}")
    return program
