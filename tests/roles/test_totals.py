"""Totals of which some are lost."""

import json

from headrace.roles.totals import Counts, Totals


def counts(steps: int, push: float) -> Counts:
    return {"steps": steps, "seconds": {"push": push, "other": 1.0}}


def test_totals_make_up_for_lost_reports() -> None:
    totals = Totals()
    assert totals.add("a", counts(10, 0.5)) == {"steps": 10, "seconds": {"push": 0.5, "other": 1.0}}
    assert totals.add("a", counts(70, 2.0)) == {"steps": 60, "seconds": {"push": 1.5, "other": 0.0}}
    assert totals.add("a", counts(70, 2.0)) == {"steps": 0, "seconds": {"push": 0.0, "other": 0.0}}
    assert totals.last("a") == counts(70, 2.0)


def test_every_process_counts_from_zero() -> None:
    totals = Totals()
    totals.add("a", counts(10, 0.5))
    assert totals.last("b") == {}
    assert totals.add("b", counts(4, 0.25)) == counts(4, 0.25)


def test_sums_are_over_all_processes() -> None:
    totals = Totals()
    assert totals["steps"] == 0
    totals.add("a", counts(10, 0.5))
    totals.add("b", counts(4, 0.25))
    totals.add("a", counts(11, 0.75))
    assert totals.sums == {"steps": 15, "seconds": {"push": 1.0, "other": 2.0}}
    assert totals["steps"] == 15


def test_names_may_be_missing_from_some_totals() -> None:
    totals = Totals()
    totals.add("a", {"steps": 10})
    assert totals.add("a", {"inserts": 5}) == {"inserts": 5}
    assert totals.sums == {"steps": 10, "inserts": 5}


def test_restored_sums_increase_by_increments() -> None:
    totals = Totals()
    totals.sums = counts(100, 3.0)
    totals.add("a", counts(10, 0.5))
    assert totals.sums == {"steps": 110, "seconds": {"push": 3.5, "other": 2.0}}


def test_a_resumed_run_continues_from_its_checkpoint() -> None:
    totals = Totals()
    totals.add("a", counts(10, 0.5))
    resumed = Totals(json.loads(json.dumps(totals.state())))
    totals.add("a", counts(30, 0.5))  # after the checkpoint
    assert resumed.add("a", counts(40, 0.75)) == {"steps": 30, "seconds": {"push": 0.25, "other": 0.0}}
