"""Roles by kind, and their way to another process."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.errors import ConfigError
from headrace.fields import read_json, write_json
from headrace.gradients.handles import ServedHandle, SharedHandle, VectorHandle
from headrace.gradients.served import ServedOptions
from headrace.launch.base import RoleStart
from headrace.networks import Architecture
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.evaluator import EvaluatorRole
from headrace.roles.handles import PARAMETERS, POLICY, REPLAY, SIMULATED, TRANSITIONS
from headrace.roles.planner import PlannerRole, PlannerSettings
from headrace.roles.quantizer import QuantizerRole
from headrace.roles.registry import ROLES, read_role
from headrace.roles.remote_actor import ActorRole
from headrace.roles.remote_worker import WorkerRole, WorkerSettings
from headrace.roles.separate_role import RunNotice, SeparateRole
from headrace.servers import Endpoint
from headrace.types import EnvironmentSpec

SPEC = EnvironmentSpec((4,), "float32", 2)
ENDPOINT = Endpoint("tcp://[::1]:7447", "lander", str(Path("/secrets/token")), 60.0)
ACTING = ActorSettings("CartPole-v1", 3, 0, (0.1, 0.2), DQN(n_step=3), 50, SPEC, values=True, pull_period=0.5)
HANDLES = (SharedHandle("/dev/shm/model", "hogwild"), ServedHandle(ServedOptions(), "model/vector-1"))
EXAMPLES: list[Role] = [
    ActorRole(1, ACTING, POLICY, REPLAY, TRANSITIONS, relay=ENDPOINT, generation=7),
    WorkerRole(0, WorkerSettings(ACTING, 2, HANDLES, {"capacity": 5, "sampler": "uniform"}, 2**60)),
    WorkerRole(0, WorkerSettings(ACTING, 2, (), None, 0), REPLAY),
    QuantizerRole(0, Architecture.of(SPEC, "mlp", (8, 8)), "int8", 32, PARAMETERS, POLICY),
    PlannerRole(3, PlannerSettings(SPEC, DynaQ(model_hidden=(3, 4)), 7, "int8", 8), POLICY, TRANSITIONS, SIMULATED),
    EvaluatorRole(0),
    SeparateRole(2, "actor", ENDPOINT),
]


@pytest.mark.parametrize("kind", ROLES)
def test_a_kind_is_that_of_its_class(kind: str) -> None:
    module, _, name = ROLES[kind].partition(":")
    assert getattr(import_module(module), name).kind == kind
    assert kind in {role.kind for role in EXAMPLES}


@pytest.mark.parametrize("role", EXAMPLES, ids=lambda role: role.kind)
def test_a_role_round_trips_through_json(role: Role) -> None:
    start = RoleStart(role, ENDPOINT)
    assert read_json(RoleStart, write_json(start), "a role's start") == start


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"kind": "juggler", "index": 0}, r"kind is 'juggler'; it must be one of actor, worker, .*"),
        ({"index": 0}, r"kind is None; it must be one of actor, .*"),
        ({"kind": "evaluator", "index": "0"}, r"index is '0'; it must be a whole number"),
        (
            {"kind": "separate", "index": 0, "acting": "actor", "relay": {"address": 3}},
            r"relay: address is 3; it must be a string",
        ),
        ({"kind": "actor", "index": 0}, r"settings is missing; ActorRole must have it"),
    ],
)
def test_an_invalid_role_record_is_named(record: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_role(record)


@pytest.mark.parametrize("kind", ["evaluator", "quantizer", "planner"])
def test_a_notice_of_other_roles_is_refused_before_any_module_is_imported(kind: str) -> None:
    """A notice comes from a server, which may be another's."""
    notice = {"environment": "CartPole-v1", "hang_seconds": 60.0, "start": "first", "kind": kind}
    with pytest.raises(ConfigError, match=rf"a run's notice.*kind is '?{kind}'?; it must be actor or worker"):
        RunNotice.from_json(json.dumps(notice))


@pytest.mark.parametrize("vector", [{}, {"kind": "borrowed"}])
def test_what_is_no_vector_is_named(vector: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"kind is .*; it must be one of shared, served"):
        VectorHandle.from_record(vector)
