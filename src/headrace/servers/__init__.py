"""Servers, which carry a run's experience, parameters and reports, wherever they run."""

from headrace.replay.remote import read_token
from headrace.servers.base import LEARNER, SCHEMES, Endpoint, RoleServer, RunServer, is_redis, shown
from headrace.servers.connect import connect_role, connect_tables, open_server
from headrace.servers.embedded import EmbeddedServer
from headrace.servers.shards import blamed_server, drop_earlier_shards, drop_shards, lost_updates, open_shards
from headrace.servers.standalone import StandaloneServer, claim_run

__all__ = [
    "LEARNER",
    "SCHEMES",
    "EmbeddedServer",
    "Endpoint",
    "RoleServer",
    "RunServer",
    "StandaloneServer",
    "blamed_server",
    "claim_run",
    "connect_role",
    "connect_tables",
    "drop_earlier_shards",
    "drop_shards",
    "is_redis",
    "lost_updates",
    "open_server",
    "open_shards",
    "read_token",
    "shown",
]
