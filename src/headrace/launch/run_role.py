"""Runs any role against its run's server."""

import contextlib

from headrace.errors import ServerError
from headrace.roles.base import TRANSITIONS, Role, Stop
from headrace.roles.evaluator import run_evaluator
from headrace.roles.quantizer import run_quantizer
from headrace.roles.remote_actor import run_actor
from headrace.roles.separate_actor import claim_place, run_separate_actor
from headrace.servers import Endpoint, RoleServer, connect_role, connect_tables

__all__ = ["run_role"]


def run_role(role: Role, endpoint: Endpoint, stop: Stop) -> None:
    """Returns when `stop` is set or the server is gone; raises what the role raises."""
    with contextlib.ExitStack() as ends:

        def connect(place: Endpoint) -> RoleServer:
            return ends.enter_context(contextlib.closing(connect_role(place)))

        server = connect(endpoint)
        if role.kind == "evaluator":
            return run_evaluator(server, stop)
        if role.kind == "quantizer":
            return run_quantizer(server, role, stop)
        if role.kind == "planner":
            from headrace.roles.planner import run_planner  # imports torch, which actors do not need

            connection = ends.enter_context(contextlib.closing(connect_tables(endpoint)))
            return run_planner(role, server, connection.table(endpoint.name(TRANSITIONS)), stop)
        reports = connect(endpoint)
        if role.kind == "worker":
            from headrace.roles.remote_worker import run_worker  # imports torch, which actors do not need

            return run_worker(role, server, reports, endpoint, stop)
        if role.kind == "separate-actor":
            policies = connect(Endpoint.from_json(role.settings) if role.settings else endpoint)
            return run_separate_actor(server, reports, policies, stop)
        policies = connect(endpoint)
        if endpoint.run and claim_place(server, [role.index], stop) is None:
            raise ServerError(f"{role.name} of run {endpoint.run} is acting already, from another process")
        return run_actor(role, server, reports, policies, stop)
