"""Records by kind, after resumes, as columns."""

from typing import Any

import numpy as np
import pytest

from headrace.report import history as module
from headrace.report.history import collect, column


def test_records_are_sorted_by_kind():
    records = [{"kind": kind, "seconds": 1.0} for kind in ("progress", "evaluation", "exit", "progress", "other")]
    records += [{"kind": "quantization", "seconds": 1.0}, {"kind": "precision", "seconds": 0.0}]
    history = collect(records)
    assert [len(part) for part in history] == [2, 1, 0, 1, 1, 1]


def test_a_resume_discards_records_after_its_checkpoint():
    history = collect(
        [
            {"kind": "progress", "seconds": 1.0},
            {"kind": "evaluation", "seconds": 2.0},
            {"kind": "progress", "seconds": 3.0},
            {"kind": "quantization", "seconds": 3.0},
            {"kind": "evaluation", "seconds": 4.0},
            {"kind": "resume", "seconds": 2.0},
            {"kind": "progress", "seconds": 2.5},
        ]
    )
    assert [record["seconds"] for record in history.progress] == [1.0, 2.5]
    assert [record["seconds"] for record in history.evaluations] == [2.0]
    assert history.quantizations == []
    assert len(history.resumes) == 1


def test_of_a_long_run_progress_is_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_PROGRESS", 10)
    records: list[dict[str, Any]] = [{"kind": "progress", "seconds": second} for second in range(1, 48)]
    records.insert(20, {"kind": "evaluation", "seconds": 20.5})
    found = collect(records)
    assert [record["seconds"] for record in found.progress] == [8, 16, 24, 32, 40, 47]
    assert len(found.evaluations) == 1
    records += [{"kind": "resume", "seconds": 30}, {"kind": "progress", "seconds": 31}]
    assert [record["seconds"] for record in collect(records).progress] == [8, 16, 24, 31]


def test_columns_leave_out_records_that_lack_a_value():
    records = [{"x": 1, "y": {"z": 2.0}}, {"x": 2, "y": {"z": None}}, {"x": 3}, {"x": 4, "y": {"z": 5.0}}]
    x, z = column(records, "x", "y.z")
    assert x.tolist() == [1.0, 4.0]
    assert z.tolist() == [2.0, 5.0]
    assert [part.shape for part in column([], "x", "y.z")] == [(0,), (0,)]


def test_long_columns_are_averaged():
    (x,) = column([{"x": value} for value in range(1000)], "x", points=10)
    np.testing.assert_allclose(x, np.arange(10) * 100 + 49.5)
