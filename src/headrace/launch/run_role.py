"""Runs one role, whatever it is, against the server at an address."""

from headrace._native import Client
from headrace.roles.base import Role, Stop
from headrace.roles.evaluator import run_evaluator
from headrace.roles.remote_actor import run_actor

__all__ = ["run_role"]


def run_role(role: Role, address: str, stop: Stop) -> None:
    """Returns when `stop` is set or the server is gone; raises what the role raises."""
    client = Client(address)
    try:
        if role.kind == "actor":
            reports = Client(address)
            try:
                run_actor(role, client, reports, stop)
            finally:
                reports.close()
        else:
            run_evaluator(client, stop)
    finally:
        client.close()
