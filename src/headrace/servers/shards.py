"""A run's parameters in shards of its server and of other servers."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence

from headrace._native import Client, ShardedModel
from headrace.errors import ConfigError, HeadraceError
from headrace.servers.base import RECONNECT_SECONDS, Endpoint, is_redis, shown
from headrace.servers.simulated import SCHEME
from headrace.servers.simulated_shards import SimulatedShards

__all__ = ["blamed_server", "drop_earlier_shards", "drop_shards", "lost_updates", "open_shards"]

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 2.0


def open_shards(
    endpoint: Endpoint, name: str, count: int, shards: int = 1, servers: Sequence[str] = ()
) -> ShardedModel | SimulatedShards:
    """Connects to `count` parameters in shards, assigned in rotation to the run's server and `servers`.

    All servers get the run's token; `name` must be unique to the run on `servers`. Raises ConfigError for an
    unsupported server (a Redis has no shards), StorageError if a server does not answer in time.
    """
    if endpoint.address.startswith(SCHEME):
        return SimulatedShards(endpoint, name, count, shards, servers)
    addresses = [endpoint.address, *servers]
    for address in addresses:
        if is_redis(address):
            raise ConfigError(
                f"server is {shown(address)}; shards, to which gradients are applied, need a Headrace server: leave it "
                "out for one of the run's own, or start one with headrace serve"
            )
    if servers:
        endpoint = dataclasses.replace(endpoint, reconnect_seconds=max(endpoint.reconnect_seconds, RECONNECT_SECONDS))
    return ShardedModel(
        addresses,
        endpoint.name(name),
        count,
        shards=shards,
        timeout_seconds=_connect_seconds(endpoint),
        token=endpoint.secret(),
        request_timeout_seconds=endpoint.request_timeout_seconds,
        reconnect_seconds=endpoint.reconnect_seconds,
    )


def blamed_server(error: HeadraceError, address: str) -> tuple[str, str]:
    """The server that an error is about, and its message; the server is `address` if the error names no other."""
    named = re.fullmatch(r"address '([^']*)': (.*)", str(error), re.DOTALL)
    return (named[1], named[2]) if named else (address, str(error))


def drop_earlier_shards(endpoint: Endpoint, name: str, servers: Sequence[str]) -> None:
    """Removes the shards that earlier starts of a run left on `servers`; raises StorageError as open_shards()."""
    if endpoint.address.startswith(SCHEME) or is_redis(endpoint.address):
        return  # open_shards() says what is wrong
    for server in servers:
        with contextlib.closing(Client(server, _connect_seconds(endpoint), token=endpoint.secret())) as client:
            client.drop(endpoint.name(f"{name}/"))


def drop_shards(endpoint: Endpoint, name: str, servers: Sequence[str]) -> None:
    """Removes a model's shards from `servers`; a server that does not answer quickly keeps its shards."""
    for server in servers:
        with contextlib.suppress(HeadraceError), _brief_client(endpoint, server) as client:
            client.drop(endpoint.name(f"{name}/"))


def lost_updates(endpoint: Endpoint, name: str, servers: Sequence[str] = ()) -> int:
    """Number of updates of a model that its servers lost when they were killed.

    Of a vector's shards, the one that lost most counts. Raises HeadraceError if a server does not answer quickly.
    """
    lost: dict[str, int] = {}
    for server in [endpoint.address, *servers]:
        with _brief_client(endpoint, server) as client:
            for shard, stats in client.stats()["shards"].items():
                if shard.startswith(endpoint.name(f"{name}/")):
                    vector = shard.rpartition("/")[0]
                    lost[vector] = max(lost.get(vector, 0), stats["lost"])
    return sum(lost.values())


def _connect_seconds(endpoint: Endpoint) -> float:
    return max(_CONNECT_SECONDS, endpoint.reconnect_seconds)


@contextlib.contextmanager
def _brief_client(endpoint: Endpoint, server: str) -> Iterator[Client]:
    """A connection to a server of the run that must answer quickly."""
    client = Client(
        server, timeout_seconds=_ANSWER_SECONDS, token=endpoint.secret(), request_timeout_seconds=_ANSWER_SECONDS
    )
    with contextlib.closing(client):
        yield client
