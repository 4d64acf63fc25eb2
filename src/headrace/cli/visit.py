"""A short connection to a server, for commands that inspect it or remove data."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from headrace._native import Client
from headrace.errors import ConfigError, ServerError, require
from headrace.servers import is_redis, read_token, shown

__all__ = ["visit"]

_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 10.0


@contextlib.contextmanager
def visit(address: str, token_file: Path | None) -> Iterator[Client]:
    """A context with a client of the server; raises ConfigError for Redis, HeadraceError if no server answers soon.

    Raises ServerError if the body can't read the statistics that it received.
    """
    if is_redis(address):
        raise ConfigError(
            f"address is {shown(address)}; it must be a Headrace server's, tcp://, unix: or dpdk: "
            "(use redis-cli for Redis)"
        )
    require("address", ascii(address), address.isprintable(), "one that can be printed")
    token = read_token(token_file) if token_file else None
    try:
        client = Client(address, _CONNECT_SECONDS, token=token, request_timeout_seconds=_REQUEST_SECONDS)
    except ServerError as error:
        if "frame magic" not in str(error):  # with which each frame of the protocol begins
            raise
        raise ServerError(
            f"address is {address}, where something else than a Headrace server answers; it must be that of one"
        ) from error
    try:
        yield client
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # the body reads only the server's statistics
        raise ServerError(f"address '{address}': the statistics are not those of a Headrace server") from error
    finally:
        client.close()
