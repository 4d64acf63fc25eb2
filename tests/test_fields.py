"""Values of fields against their types: from JSON, and from Python."""

import dataclasses
import json
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace import A3C, D4PG, DQN, Apex, DynaQ, Hogwild, ParameterServer, Serial
from headrace.errors import ConfigError
from headrace.fields import check_types, read_fields, read_json, read_object
from headrace.settings import RunConfig


@dataclass(frozen=True)
class Inner:
    size: int


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 1
    rate: float = 0.5
    loud: bool = False
    kind: Literal["a", "b"] = "a"
    path: Path | None = None
    widths: tuple[int, ...] = ()
    limit: int | None = None
    inner: Inner = field(default_factory=lambda: Inner(1))
    options: dict[str, Any] | None = None


def test_valid_values_are_read() -> None:
    record = {"name": "x", "count": 2, "rate": 3, "loud": True, "kind": "b", "path": "/p", "widths": [4, 5]}
    read = read_fields(Outer, record | {"limit": 6, "inner": {"size": 7}, "options": {"a": 1}})
    assert read == Outer("x", 2, 3, True, "b", Path("/p"), (4, 5), 6, Inner(7), {"a": 1})
    assert read_fields(Outer, {"name": "x", "path": None, "limit": None}) == Outer("x")
    assert read_fields(Outer, {"name": "x"}, count=9).count == 9


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"name": 1}, "name is 1; it must be a string"),
        ({"count": 1.0}, "count is 1.0; it must be a whole number"),
        ({"count": True}, "count is True; it must be a whole number"),
        ({"count": "1"}, "count is '1'; it must be a whole number"),
        ({"rate": True}, "rate is True; it must be a finite number"),
        ({"rate": nan}, "rate is nan; it must be a finite number"),
        ({"rate": -inf}, "rate is -inf; it must be a finite number"),
        ({"rate": 10**400}, "it must be a finite number"),
        ({"count": None}, "count is None; it must be a whole number"),
        ({"loud": "no"}, "loud is 'no'; it must be true or false"),
        ({"loud": 0}, "loud is 0; it must be true or false"),
        ({"kind": "c"}, "kind is c; it must be a or b"),
        ({"kind": ["a"]}, "kind is ['a']; it must be a or b"),
        ({"path": 3}, "path is 3; it must be a path or none"),
        ({"widths": [1, "2"]}, "widths is (1, '2'); it must be a tuple of values, each a whole number"),
        ({"widths": 3}, "widths is 3; it must be a tuple of values, each a whole number"),
        ({"limit": 2.5}, "limit is 2.5; it must be a whole number or none"),
        ({"inner": 3}, "inner is 3; it must be an object with the fields of Inner"),
        ({"inner": {"size": "3"}}, "size is '3'; it must be a whole number"),
        ({"options": []}, "options is []; it must be an object or none"),
        ({"other": 1}, "other is 1; Outer has no such field, and it must be left out"),
        ({"name": "x" * 1000, "count": []}, "count is []"),
    ],
)
def test_invalid_values_are_named(record: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_fields(Outer, {"name": "x"} | record)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ConfigError, match="name is missing"):
        read_fields(Outer, {})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ud800", b"\xff", '{"name": ' + "9" * 5_000 + "}"])
def test_invalid_json_is_reported(text: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"^the file is not JSON"):
        read_object(text, "the file")


@pytest.mark.parametrize("text", ["3", "[]", "null", '"x"'])
def test_json_that_is_not_an_object(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^the file is .*; it must be an object"):
        read_json(Outer, text, "the file")


@pytest.mark.parametrize("kind", [DQN, D4PG, A3C, DynaQ, Serial, Apex, Hogwild, ParameterServer])
def test_every_setting_refuses_a_value_of_another_type(kind: Any) -> None:
    """From Python, and in every field."""
    check_types(kind())
    for name in (each.name for each in dataclasses.fields(kind)):
        with pytest.raises(ConfigError, match=rf"^{name} is <object .*>; it must be"):
            kind(**{name: object()})


def test_every_setting_of_a_run_refuses_a_value_of_another_type() -> None:
    record = json.loads(RunConfig("X").to_json())
    for name in RunConfig.__dataclass_fields__:
        with pytest.raises(ConfigError, match=rf"^{name} is <object .*>; it must be"):
            RunConfig(**{"environment": "X", name: object()})  # type: ignore[arg-type]
        assert name in record


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *((DQN, name, 10**18) for name in ("n_step", "batch_size", "replay_capacity", "learning_starts")),
        *((DQN, name, 10**18) for name in ("publish_period", "target_update_period", "epsilon_decay_steps")),
        *((DQN, name, 1e18) for name in ("samples_per_step", "priority_exponent", "importance_exponent")),
        *((DQN, "hidden", value) for value in ((10**12,), (1,) * 1_000)),
        *((D4PG, name, value) for name, value in (("atoms", 10**9), ("critic_hidden", (10**12,)))),
        (A3C, "n_step", 10**9),
        *((DynaQ, name, 10**13) for name in ("planners", "ensemble_size", "rollout_steps", "simulated_capacity")),
        *((DynaQ, name, 10**9) for name in ("model_batch_size", "model_samples_per_step", "simulated_per_step")),
        (DynaQ, "model_hidden", (10**12,)),
        *((Apex, name, 10**10) for name in ("actors", "envs_per_actor", "chunk_steps", "batches_ahead")),
        *((Serial, name, 10**10) for name in ("envs_per_actor", "chunk_steps")),
        *((Hogwild, name, 10**10) for name in ("workers", "envs_per_worker", "chunk_steps")),
        *((ParameterServer, name, 10**18) for name in ("shards", "fetch_period", "push_period", "staleness_limit")),
    ],
)
def test_no_setting_exceeds_what_a_machine_has(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is .*; it must be .*(at most|from 0 to)"):
        kind(**{name: value, **({"replay_capacity": 2**40} if name == "learning_starts" else {})})
