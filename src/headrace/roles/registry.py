"""All roles by kind. A module is imported only in the process that runs its role: actors do not need torch."""

from importlib import import_module
from typing import Any

from headrace.errors import require
from headrace.fields import read_fields
from headrace.roles.base import Role

__all__ = ["ROLES", "read_role"]

ROLES = {
    "actor": "headrace.roles.remote_actor:ActorRole",
    "worker": "headrace.roles.remote_worker:WorkerRole",
    "quantizer": "headrace.roles.quantizer:QuantizerRole",
    "planner": "headrace.roles.planner:PlannerRole",
    "evaluator": "headrace.roles.evaluator:EvaluatorRole",
    "separate-actor": "headrace.roles.separate_actor:SeparateActorRole",
}
"""Module and class by kind."""


def read_role(record: dict[str, Any]) -> Role:
    """Reads what Role.to_record() returned; raises ConfigError with the field's name if it is something else."""
    fields = dict(record)
    kind = fields.pop("kind", None)
    require("kind", f"{kind!r:.60}", kind in (*ROLES,), f"one of {', '.join(ROLES)}")
    module, _, name = ROLES[kind].partition(":")
    role: Role = read_fields(getattr(import_module(module), name), fields)
    return role
