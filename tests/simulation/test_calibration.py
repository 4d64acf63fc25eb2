"""Costs measured on this machine."""

import json
from pathlib import Path

import pytest

from headrace import A3C, DynaQ
from headrace.errors import ConfigError, StorageError
from headrace.launch.simulated.costs import Cost, Costs
from headrace.simulation import calibration
from headrace.simulation.calibration import Recorder, calibrate, fit, write_costs
from headrace.simulation.contention import Contention
from headrace.simulation.requests import Requests

CORRIDOR = "headrace.environments.toy:Corridor"


def test_a_recorder_notes_the_time_between_ends_of_work() -> None:
    times = iter([0.0, 3.0, 3.0, 4.0, 4.0, 9.0, 9.0])
    recorder = Recorder(lambda: next(times))
    for work in ("environment", "inference", "environment"):
        recorder.spend(work)
    assert recorder.seconds == {"environment": [3.0, 5.0], "inference": [1.0]}


def test_an_update_of_several_vectors_has_the_gradients_of_all() -> None:
    """Two updates of two vectors each: gradients of 3 and 4 s, then 2 s until the phase ends; then 1, 1 and 5 s."""
    ends = [3, 3, 7, 7, 9, 10, 10, 11, 11, 16]
    times = iter([0.0, *(float(time) for end in ends for time in (end, end))])
    recorder = Recorder(lambda: next(times))
    for work in ("gradient", "apply", "gradient", "apply", "train") * 2:
        recorder.spend(work)
    assert recorder.seconds == {"gradient": [7.0, 2.0], "train": [2.0, 5.0]}


def test_two_numbers_of_environments_give_the_cost_of_one() -> None:
    cost = fit([[2.0, 4.0], [33.0, 33.0]], (1, 16))  # means 3 and 33
    assert (cost.seconds, cost.per_row, cost.spread) == (pytest.approx(1.0), pytest.approx(2.0), 0.0)
    assert fit([[3.0], [2.0]], (1, 16)).per_row == 0.0  # noise


def test_costs_are_measured_and_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_start_seconds", lambda: 0.5)  # takes seconds
    monkeypatch.setattr(calibration, "measure_contention", lambda *_: Contention(0.125, 0.25))  # likewise
    requests = Requests("3us,4Gbit", Cost(1e-5, per_byte=1e-9), Cost(2e-5))
    monkeypatch.setattr(calibration, "measure_requests", lambda *_: requests)  # likewise
    write_costs(calibrate(CORRIDOR, A3C(hidden=(8,)), 0.05), tmp_path / "costs.json")
    record = json.loads((tmp_path / "costs.json").read_text())
    assert record["calibration"]["environment"] == CORRIDOR
    assert record["calibration"]["link"] == "3us,4Gbit"
    costs = Costs.read(tmp_path / "costs.json")
    for name in (
        "environment",
        "inference",
        "gradient",
        "apply",
        "sum",
        "encode",
        "session",
        "start",
        "request",
        "answer",
    ):
        assert costs.work[name].seconds + costs.work[name].per_row > 0
    assert (costs.contention, costs.switching) == (0.125, 0.25)
    assert costs.work["gradient"].per_row == costs.work["transfer"].per_row == 0.0


def test_what_plans_is_refused() -> None:
    with pytest.raises(ConfigError, match="dyna-q"):
        calibrate(CORRIDOR, DynaQ(), 0.1)


def test_too_short_a_measurement_is_refused() -> None:
    with pytest.raises(ConfigError, match="seconds is 1e-06; more is required"):
        calibrate(CORRIDOR, A3C(hidden=(8,)), 1e-6)


def test_a_path_that_cant_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        write_costs({}, tmp_path / "missing" / "costs.json")
