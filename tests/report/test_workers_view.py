"""The report's section on workers' gradients."""

from headrace.report.workers_view import workers_section


def test_shares_of_staleness_and_outcomes_of_gradients() -> None:
    counts = {"accepted": 1_500, "dropped": 7, "refused": 2, "lock_wait_seconds": 65.0}
    section = workers_section({**counts, "staleness": {"0": 3, "1": 1, "32+": 0}})
    assert "<td>75.0%</td><td>25.0%</td><td>0.0%</td>" in section
    assert "<th>32+</th>" in section
    for said in ("1,500", "dropped for their staleness", ">7<", ">2<", "1:05"):
        assert said in section


def test_a_run_without_workers_has_no_such_section() -> None:
    assert workers_section(None) == ""
