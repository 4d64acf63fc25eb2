"""Runs whose actors act in fewer bits: in threads, and in processes of which one is killed."""

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.launch.simulated import Simulated
from headrace.networks.precision import Precision

from .conftest import TOPOLOGIES, Train
from .test_faults import SMALL, TOY, learning, roles, start, wait_for

QUANTIZED = [*SMALL, "--precision", "int8", "--publish-period", "5", "--pull-period", "20"]


def quantizers(pid: int) -> list[int]:
    """Process ids of a run's quantizer: one, or none while it is being started."""
    return roles(pid, b"quantizer")


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [record for record in lines if record["kind"] == kind]


def staleness(path: Path) -> list[float]:
    """Of batches learned from, since so many updates."""
    return [record["staleness"] for record in records(path, "progress") if record.get("staleness") is not None]


@pytest.mark.parametrize(
    ("precision", "bits"),
    [
        ("int8", 32),
        pytest.param("fp16", 32, marks=pytest.mark.slow),
        ("int8", 4),
        pytest.param("fp32", 8, marks=pytest.mark.slow),
    ],
)
def test_actors_learn_with_a_policy_in_fewer_bits(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision, bits: int
) -> None:
    apex = dataclasses.replace(TOPOLOGIES["apex"], precision=precision, communication_bits=bits)
    monkeypatch.setitem(TOPOLOGIES, "apex", apex)
    wide = {"hidden": (256, 256)}  # narrower layers are left as they are
    result = train("apex", launcher=Simulated(), steps=4_000, final_evaluation_episodes=20, algorithm=wide)
    assert result.summary["mean_return"] >= 0.9  # the corridor's end is worth 1
    # Actors that keep their first policy are as stale as there were updates; the table holds all that was made.
    assert result.summary["staleness"] < 0.8 * result.summary["learner_steps"]
    assert result.summary["precision"] == precision
    [chosen] = records(tmp_path / "run", "precision")
    assert (chosen["precision"], chosen["communication_bits"]) == (precision, bits)
    [first, *_] = records(tmp_path / "run", "quantization")
    assert first["bytes"] < (0.2 if bits == 4 else 0.6) * first["parameter_bytes"]
    assert 0 < first["largest"] < (1.0 if bits == 4 else 0.1) * first["largest_output"]


def test_the_last_report_of_a_process_comes_when_it_is_stopped(tmp_path: Path) -> None:
    """A run too short for a second report has the error of its policy all the same."""
    arguments = [f"{TOY}Corridor", *QUANTIZED, "--steps", "1500", "--final-evaluation-episodes", "1"]
    process = start(tmp_path, *arguments)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert records(tmp_path / "run", "quantization")


@pytest.mark.slow
def test_a_killed_quantizer_is_restarted_and_versions_keep_increasing(tmp_path: Path) -> None:
    arguments = [f"{TOY}Corridor", *QUANTIZED, "--steps", "150000", "--final-evaluation-episodes", "1"]
    process = start(tmp_path, *arguments)
    wait_for(lambda: learning(tmp_path))
    [killed] = quantizers(process.pid)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: quantizers(process.pid) not in ([], [killed]))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "quantizer 0 died (killed by SIGKILL" in out
    assert [record["role"] for record in records(tmp_path / "run", "exit")] == ["quantizer 0"]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped_by"] == "steps"
    updates = summary["learner_steps"]
    assert staleness(tmp_path / "run")[-1] < updates / 2  # what was learned from last was made by a late version
