"""The page of a prediction."""

from headrace.simulation.capacity import Prediction, Score
from headrace.simulation.page import present, row


def test_the_page_names_the_knee_and_each_size() -> None:
    scores = (Score(2, 1.0, 10, 0.5), Score(2, 2.0, 20, 0.9))
    small = Prediction(2, 1000.0, 10.0, 1.25, 0.625, "all compute", 2.0, 2000, 20, 0.9, "time", scores)
    large = Prediction(8, 1100.0, 11.0, 7.5, 0.5, "workers wait for the lock", 2.0, 2200, 22, None, "time")
    page = present("Corridor & more", "headrace simulate <ENV>", [small, large])
    assert "2 cores" in page
    assert "Corridor &amp; more" in page
    assert "headrace simulate &lt;ENV&gt;" in page
    assert page.count("<svg") == 4
    assert row(small) == ("2", "1,000", "10", "1.2", "62%", "all compute", "0.9", "time")
    assert row(large)[4:] == ("50%", "workers wait for the lock", "-", "time")


def test_a_run_without_an_update_has_no_staleness() -> None:
    none = Prediction(1, 900.0, 0.0, None, 0.5, "too short to tell", 2.0, 1800, 0, None, "time")
    assert row(none)[3] == "-"
    assert present("Corridor", "headrace simulate", [none, none._replace(cores=2)]).count("<svg") == 3
