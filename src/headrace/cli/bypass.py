"""The polling server: `headrace serve --listen dpdk:...` is replaced by the executable headrace-bypass."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NoReturn

from headrace.errors import ConfigError
from headrace.servers import shown
from headrace.servers.polling import find_polling_server

__all__ = ["MOST_CONNECTIONS", "Poll", "is_bypass", "start"]

Poll = Literal["adaptive", "always"]
"""Whether the polling thread naps while there is nothing to do."""

MOST_CONNECTIONS = 4096
"""That its TCP has room for."""
_SCHEME = "dpdk:"


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
    try:
        return find_polling_server()
    except ConfigError as error:
        raise ConfigError(f"listen is {shown(address)}; {error}") from None
