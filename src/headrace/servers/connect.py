"""Connects to a server at an address."""

import secrets

from headrace.errors import ConfigError
from headrace.replay import Connection
from headrace.servers.base import Endpoint, RoleServer, RunServer, is_redis, shown
from headrace.servers.embedded import EmbeddedServer
from headrace.servers.simulated import SCHEME, SimulatedServer
from headrace.servers.simulated_connections import SimulatedRole, SimulatedTables
from headrace.servers.standalone import StandaloneRole, StandaloneServer, open_connection

__all__ = ["connect_role", "connect_tables", "open_server"]


def connect_role(endpoint: Endpoint) -> RoleServer:
    """A role's connection to its run's server; StorageError if no server answers in time, ConfigError for the token."""
    if endpoint.address.startswith(SCHEME):
        return SimulatedRole(endpoint)
    if is_redis(endpoint.address):
        from headrace.servers.redis import RedisRoleServer  # an optional dependency, imported only if used

        return RedisRoleServer(endpoint)
    return StandaloneRole(endpoint)


def connect_tables(endpoint: Endpoint) -> Connection | SimulatedTables:
    """A connection for a role that samples; raises as connect_role(), and ConfigError for Redis, which can't sample."""
    if endpoint.address.startswith(SCHEME):
        return SimulatedTables(endpoint)
    if is_redis(endpoint.address):
        raise ConfigError(f"server is {shown(endpoint.address)}; one of `headrace serve` is required to sample from")
    return open_connection(endpoint)


def open_server(
    endpoint: Endpoint | None,
    run_id: str = "",
    *,
    address: str = "unix:@",
    token: str = "",
    reconnect_seconds: float = 0.0,
) -> RunServer:
    """The training process's server: if there is no endpoint, an embedded one that listens at `address`.

    Raises as connect_role(). `token` and `reconnect_seconds` are those of the embedded server's endpoint.

    `run_id` is hexadecimal and the same for every start of a run. Also raises ConfigError if another learner has the
    run.
    """
    if endpoint is None and address.startswith(SCHEME):
        return SimulatedServer(address)
    if endpoint is None:
        return EmbeddedServer(address, token, reconnect_seconds)
    if is_redis(endpoint.address):
        from headrace.servers.redis import RedisServer

        return RedisServer(endpoint)
    return StandaloneServer(endpoint, owner=secrets.randbits(63), run_id=run_id)
