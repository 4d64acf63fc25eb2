"""Runs one role, whatever it is, against its run's server."""

from headrace.errors import ReplayError
from headrace.roles.base import Role, Stop
from headrace.roles.evaluator import run_evaluator
from headrace.roles.remote_actor import run_actor
from headrace.roles.volunteer import claim_place, run_volunteer
from headrace.servers import Endpoint, connect_role

__all__ = ["run_role"]


def run_role(role: Role, endpoint: Endpoint, stop: Stop) -> None:
    """Returns when `stop` is set or the server is gone; raises what the role raises."""
    server = connect_role(endpoint)
    try:
        if role.kind == "evaluator":
            return run_evaluator(server, stop)
        reports = connect_role(endpoint)
        try:
            if role.kind == "volunteer":
                return run_volunteer(server, reports, stop)
            if endpoint.run and claim_place(server, [role.index], stop) is None:
                raise ReplayError(f"{role.name} of run {endpoint.run} is acting already, from another process")
            return run_actor(role, server, reports, stop)
        finally:
            reports.close()
    finally:
        server.close()
