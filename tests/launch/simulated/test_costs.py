"""Costs of work and how a user writes them."""

import json
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.launch.config import LauncherConfig
from headrace.launch.simulated import Simulated
from headrace.launch.simulated.costs import WORK, Cost, Costs


def write(path: Path, record: object) -> Path:
    path.write_text(json.dumps(record))
    return path


def test_draws_have_the_mean_and_the_spread() -> None:
    generator = random.Random(0)
    draws = [Cost(1.0, 0.5, spread=0.2).draw(4, generator) for _ in range(5_000)]
    assert statistics.fmean(draws) == pytest.approx(3.0, rel=0.02)
    assert statistics.stdev(draws) == pytest.approx(0.6, rel=0.1)
    assert min(draws) > 0
    assert Cost(1.0, 0.5).draw(4, generator) == 3.0


def test_a_file_replaces_what_it_names(tmp_path: Path) -> None:
    costs = Costs.read(
        write(tmp_path / "costs.json", {"environment": "5ms", "gradient": 1e-3, "session": {"seconds": 0.002}})
    )
    assert costs.work["environment"] == Cost(per_row=0.005)
    assert (costs.work["gradient"], costs.work["session"]) == (Cost(0.001), Cost(0.002))
    assert costs.work["apply"] == WORK["apply"]
    messages = Costs.read(write(tmp_path / "messages.json", {"request": {"seconds": 1e-6, "per_byte": 2e-9}}))
    assert messages.work["request"] == Cost(1e-6, per_byte=2e-9)
    assert messages.work["request"].draw(1000, random.Random(0)) == pytest.approx(3e-6)
    assert costs.contention == costs.switching == 0.0
    slowed = replace(costs, contention=0.25, switching=0.5)
    assert Costs.read(write(tmp_path / "again.json", slowed.to_record())) == slowed


def test_evaluations_cost_what_inference_costs_unless_another_cost_is_given(tmp_path: Path) -> None:
    generator = random.Random(0)
    for given, seconds in (({}, 0.1), ({"evaluation": 0.02}, 0.02), ({"evaluation": 0.0}, 0.0)):
        costs = Costs.read(write(tmp_path / "costs.json", {"inference": 0.1, **given}))
        assert costs.draw("evaluation", 1, set(), generator) == seconds
        assert costs.draw("inference", 1, set(), generator) == 0.1
        assert Costs.read(write(tmp_path / "again.json", costs.to_record())) == costs


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"walk": 1}, "walk"),
        ({"gradient": "fast"}, "fast"),
        ({"gradient": -1.0}, "seconds is -1"),
        ({"gradient": {"minutes": 1}}, "minutes"),
        ({"gradient": True}, "True"),
        ({"gradient": {"seconds": "5ms"}}, "gradient of .*: seconds is 5ms; it must be a number from 0"),
        ({"gradient": {"spread": 1e200}}, "spread is 1e.200"),
        ({"gradient": 10**400}, "seconds is 1000.*; it must be a number from 0 to 1e.06"),
        ({"gradient": {"per_byte": 1}}, "per_byte is 1"),
        ({"request": {"per_row": 1}}, "per_row is 1"),
        ({"contention": "5ms"}, "contention is 5ms"),
        ({"contention": -0.5}, "contention is -0.5"),
        ({"switching": -0.5}, "switching is -0.5"),
        ([], "object"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, record: object, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Costs.read(write(tmp_path / "costs.json", record))


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_bytes(b"\xff{")
    with pytest.raises(ConfigError, match=r"^costs: .*costs\.json is not JSON"):
        Costs.read(tmp_path / "costs.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json"):
        Costs.read(tmp_path / "none.json")


def test_only_a_run_that_starts_needs_the_files() -> None:
    launcher = LauncherConfig.from_record({"name": "simulated", "costs": "gone.json", "faults": "gone.json"})
    assert isinstance(launcher, Simulated)
    with pytest.raises(ConfigError, match="costs is gone"):
        launcher.open()
