"""All roles by kind. A module is imported when one of its roles is read."""

from importlib import import_module
from typing import Any

from headrace.errors import require
from headrace.fields import read_fields
from headrace.roles.base import Role

__all__ = ["ROLES", "read_role", "role_class"]

ROLES = {
    "actor": "headrace.roles.remote_actor:ActorRole",
    "worker": "headrace.roles.remote_worker:WorkerRole",
    "quantizer": "headrace.roles.quantizer:QuantizerRole",
    "planner": "headrace.roles.planner:PlannerRole",
    "evaluator": "headrace.roles.evaluator:EvaluatorRole",
    "separate": "headrace.roles.separate_role:SeparateRole",
}
"""Module and class by kind."""


def read_role(record: dict[str, Any], kinds: tuple[str, ...] = (*ROLES,)) -> Role:
    """Reads what Role.to_record() returned for one of these kinds; raises ConfigError, which names the field."""
    fields = dict(record)
    kind = fields.pop("kind", None)
    require("kind", f"{kind!r:.60}", kind in kinds, f"one of {', '.join(kinds)}" if len(kinds) > 1 else kinds[0])
    return read_fields(role_class(kind), fields)


def role_class(kind: str) -> type[Role]:
    """The class of a kind of `ROLES`."""
    module, _, name = ROLES[kind].partition(":")
    found: type[Role] = getattr(import_module(module), name)
    return found
