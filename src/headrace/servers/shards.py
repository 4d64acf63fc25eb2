"""A run's parameters in shards of its server, and of others."""

from collections.abc import Sequence

from headrace._native import ShardedModel
from headrace.errors import ConfigError
from headrace.replay.remote import read_token
from headrace.servers.base import Endpoint, shown

__all__ = ["open_shards"]

_CONNECT_SECONDS = 10.0
_REDIS = "redis://"


def open_shards(
    endpoint: Endpoint, name: str, count: int, shards: int = 1, servers: Sequence[str] = ()
) -> ShardedModel:
    """Connects to `count` parameters in shards of the run's server and, in turn with it, of `servers`.

    These, too, are asked with the run's token; `name` must then be the run's alone on them. Raises ConfigError for what
    can never work (a Redis has no shards), StorageError where no server answers in time.
    """
    addresses = [endpoint.address, *servers]
    for address in addresses:
        if address.startswith(_REDIS):
            raise ConfigError(
                f"server is {shown(address)}; shards, to which gradients are applied, need a Headrace server: leave it "
                "out for one of the run's own, or start one with headrace serve"
            )
    return ShardedModel(
        addresses,
        endpoint.name(name),
        count,
        shards=shards,
        timeout_seconds=max(_CONNECT_SECONDS, endpoint.reconnect_seconds),
        token=read_token(endpoint.token_file) if endpoint.token_file else None,
        reconnect_seconds=endpoint.reconnect_seconds,
    )
