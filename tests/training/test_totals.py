"""Totals of which some are lost."""

import json
from typing import Any

from headrace.training.totals import Totals


def report(writer: str, steps: int, episodes: int, push: float) -> dict[str, Any]:
    seconds = {"push": push, "other": 1.0}
    return {"writer": writer, "index": 3, "steps": steps, "episodes": episodes, "seconds": seconds, "returns": []}


def counts(news: dict[str, Any] | None) -> tuple[int, int, float, float]:
    assert news is not None
    return news["steps"], news["episodes"], news["seconds"]["push"], news["seconds"]["other"]


def test_a_report_makes_up_for_those_that_were_lost() -> None:
    totals = Totals()
    assert counts(totals.news(report("a", 10, 1, 0.5))) == (10, 1, 0.5, 1.0)
    assert counts(totals.news(report("a", 70, 4, 2.0))) == (60, 3, 1.5, 0.0)
    assert counts(totals.news(report("a", 70, 4, 2.0))) == (0, 0, 0.0, 0.0)
    assert totals.news(report("a", 70, 4, 2.0)) == report("a", 0, 0, 0.0) | {"seconds": {"push": 0.0, "other": 0.0}}


def test_every_process_counts_from_nothing() -> None:
    totals = Totals()
    totals.news(report("a", 10, 1, 0.5))
    assert counts(totals.news(report("b", 4, 0, 0.25))) == (4, 0, 0.25, 1.0)


def test_a_report_from_before_the_last_is_none() -> None:
    totals = Totals()
    totals.news(report("a", 10, 1, 0.5))
    assert totals.news(report("a", 4, 0, 0.25)) is None
    assert counts(totals.news(report("a", 11, 1, 0.5))) == (1, 0, 0.0, 0.0)


def test_a_resumed_run_goes_on_from_its_checkpoint() -> None:
    totals = Totals()
    totals.news(report("a", 10, 1, 0.5))
    resumed = Totals(json.loads(json.dumps(totals.state())))
    totals.news(report("a", 30, 2, 0.5))  # that the checkpoint knows nothing of
    assert counts(resumed.news(report("a", 40, 3, 0.75))) == (30, 2, 0.25, 0.0)
