"""From where a server is to a connection with it."""

import secrets

from headrace.errors import ConfigError
from headrace.replay import Connection
from headrace.servers.base import Endpoint, RoleServer, RunServer, shown
from headrace.servers.embedded import EmbeddedServer
from headrace.servers.standalone import StandaloneRole, StandaloneServer, open_connection

__all__ = ["connect_role", "connect_tables", "open_server"]

_REDIS = "redis://"


def connect_role(endpoint: Endpoint) -> RoleServer:
    """A role's connection to its run's server; StorageError where none answers in time, ConfigError for the token."""
    if endpoint.address.startswith(_REDIS):
        from headrace.servers.redis import RedisRoleServer  # an extra: only who uses it needs its package

        return RedisRoleServer(endpoint)
    return StandaloneRole(endpoint)


def connect_tables(endpoint: Endpoint) -> Connection:
    """A connection for a role that samples; raises as connect_role(), and ConfigError for a Redis, which can't."""
    if endpoint.address.startswith(_REDIS):
        raise ConfigError(f"server is {shown(endpoint.address)}; one of `headrace serve` is required to sample from")
    return open_connection(endpoint)


def open_server(endpoint: Endpoint | None, run_id: str = "") -> RunServer:
    """The training process's server: one of its own where no endpoint is given. Raises as connect_role() does.

    `run_id`: the same for every start of a run, hexadecimal.

    ConfigError, too, where another learner has the run.
    """
    if endpoint is None:
        return EmbeddedServer()
    if endpoint.address.startswith(_REDIS):
        from headrace.servers.redis import RedisServer

        return RedisServer(endpoint)
    return StandaloneServer(endpoint, owner=secrets.randbits(63), run_id=run_id)
