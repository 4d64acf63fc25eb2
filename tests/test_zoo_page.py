"""The zoo's page compares systems by what their runs took, and says what did not hold."""

import math

import numpy as np
import pytest
from benchmarks.zoo.scores import Taken, cells, fewer, relative, shared_tasks, taken


def run_of(system: str, task: str, seed: int, score: str, steps: str = "") -> dict[str, str]:
    base = {"system": system, "task": task, "seed": str(seed), "fresh_mean": score, "required": "30"}
    host = {"machine": "one", "cores": "1", "date": "2026-01-01 03:04+00:00"}
    return base | host | {"steps_to_score": steps, "most_steps": "900", "ended": "score" if steps else "limit"}


ROWS = [
    run_of("serial", "A", 1, "20", "50"),
    run_of("serial", "A", 0, "30", "40"),
    run_of("sb3", "A", 0, "35") | {"environment_steps": "70"},
    run_of("serial", "B", 0, "7", "1"),
]


def test_a_run_that_did_not_reach_its_score_counts_with_what_it_took() -> None:
    """One that was killed counts with its limit."""
    assert cells(ROWS, "steps_to_score", "environment_steps", "most_steps") == {
        ("serial", "A"): [40.0, 50.0],  # by seed
        ("sb3", "A"): [70.0],
        ("serial", "B"): [1.0],
    }
    killed = run_of("sb3", "A", 1, "") | {"environment_steps": ""}
    assert cells([*ROWS, killed], "steps_to_score", "environment_steps", "most_steps")["sb3", "A"] == [70.0, 900.0]
    assert ("sb3", "A") not in cells(ROWS, "steps_to_score")


def test_what_a_run_without_its_score_took_tells_only_of_faster_runs() -> None:
    """Of the pairs of 40 or 50 with 45 or more than 45, that of 50 with more than 45 does not tell, and counts half."""
    ours = [Taken(40.0, reached=True), Taken(50.0, reached=True)]
    theirs = [Taken(45.0, reached=True), Taken(45.0, reached=False)]
    assert fewer(ours, theirs) == 2.5 / 4
    assert fewer(theirs, ours) == 1.5 / 4
    never = [Taken(math.inf, reached=False)]
    assert (fewer(ours, never), fewer(never, ours), fewer(never, never)) == (1.0, 0.0, 0.5)
    assert fewer(ours[:1], ours[:1]) == 0.5
    assert math.isnan(fewer(theirs[1:], theirs[1:]))


def test_a_run_that_had_all_its_steps_or_diverged_never_gets_there() -> None:
    cut = run_of("sb3", "A", 0, "35") | {"environment_steps": "70"}
    rows = [cut, cut | {"environment_steps": "900", "seed": "1"}, cut | {"ended": "diverged", "seed": "2"}]
    found = taken(rows, "steps_to_score", "environment_steps")["sb3", "A"]
    assert found == [Taken(value, reached=False) for value in (70.0, math.inf, math.inf)]


def test_systems_are_compared_with_the_median_of_another_one() -> None:
    values = {
        ("sb3", "A"): [Taken(10.0, reached=True), Taken(30.0, reached=True)],
        ("sb3", "B"): [Taken(1.0, reached=False)],
        ("serial", "A"): [Taken(5.0, reached=True), Taken(1.0, reached=False)],
        ("serial", "B"): [Taken(5.0, reached=True)],
        ("serial", "C"): [Taken(5.0, reached=True)],
    }
    found = relative(values, "sb3")
    assert found == {("sb3", "A"): [2.0, pytest.approx(2 / 3)], ("serial", "A"): [4.0, 0.0]}
    shared = shared_tasks(found, ("serial", "sb3"))
    assert {name: values.tolist() for name, values in shared.items()} == {
        "serial": [[4.0], [0.0]],
        "sb3": [[2.0], [pytest.approx(2 / 3)]],
    }
    assert shared_tasks(found, ("serial", "torchrl")) == {}


def test_a_profile_counts_runs_at_the_threshold() -> None:
    """Runs with exactly the required score, such as CartPole's 500."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import statistics

    shares, bounds = statistics.profiles({"serial": np.ones((3, 1))}, np.array([0.5, 1.0, 1.02]))["serial"]
    assert shares.tolist() == [1.0, 1.0, 0.0]
    assert bounds is None
    assert statistics.profiles({"serial": np.ones((10, 1))}, np.array([1.0]))["serial"][1] is not None


def test_an_interval_depends_on_no_other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rliable")
    from benchmarks.zoo import statistics

    monkeypatch.setattr(statistics, "_REPEATS", 20)
    alone = {("a", "x"): [float(seed) for seed in range(10)]}
    both = {("a", "w"): [1.0] * 10, **alone, ("b", "x"): [float(-seed) for seed in range(10)]}
    estimate = statistics.seed_estimates(alone)["a", "x"]
    assert estimate.low < estimate.value < estimate.high
    assert statistics.seed_estimates(both)["a", "x"] == estimate


def test_the_page_begins_with_what_did_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interquartile means of 1, 2, 3 and 50 drop the smallest and the largest."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import page, statistics

    monkeypatch.setattr(statistics, "_REPEATS", 20)
    more = {"holds": "True", "ended": "score", "seconds_to_score": "4", "most_seconds": "600", "seconds": "4"}
    more |= {"commit": "abc", "date": "2026-01-02", "machine": "processor", "cores": "2", "stop_at": "31"}
    more |= {"environment_steps": "5"}
    rows = [run_of("serial", "CartPole-v1", seed, "500", steps) | more for seed, steps in enumerate("1235")]
    rows[3] |= {"steps_to_score": "50", "holds": "False", "fresh_mean": "12"}
    text = page.page_text(rows, plot=False)
    assert text.index("\n| CartPole-v1 | 500 | `serial` 1 of 4 (12) |  |\n") < text.index("## Policies")
    assert "| CartPole-v1 | `serial` | 2 | 4 | 31 | 4 | 2.5 [" in text
    assert "by number of cores" not in text
    rows[3]["steps_to_score"] = "100001"
    assert "| `serial` 1 of 4 (12) | `serial` 1 of 4 |\n" in page.page_text(rows, plot=False)
    rows[3] |= {"ended": "limit", "steps_to_score": "", "environment_steps": "50"}
    assert "| CartPole-v1 | `serial` | 2 | 4 | 31 | 3 | ≥ 2.5 [1, 50] |" in page.page_text(rows, plot=False)
    ended = {"ended": "killed", "steps_to_score": "", "environment_steps": "", "seconds_to_score": "", "holds": "False"}
    killed = rows[0] | ended | {"fresh_mean": "", "most_steps": "9000000"}
    assert "| `serial` 2 of 4 (none, 12) | `serial` 1 of 4 |\n" in page.page_text([killed, *rows[1:]], plot=False)
    rows.append(run_of("simulated-8", "CartPole-v1", 0, "500", "9") | more | {"seconds_to_score": "1.5"})
    assert "| CartPole-v1 | ≥ 4, 4 runs |  |  | 1.5, 1 run |  |" in page.page_text(rows, plot=False)
    other_day = rows[0] | {"seed": "4", "date": "2026-01-03", "seconds_to_score": "100"}
    assert "| CartPole-v1 | ≥ 4, 4 runs |  |  | 1.5, 1 run |  |" in page.page_text([*rows, other_day], plot=False)
    rows[-1]["date"] = "2026-01-03"  # a machine is not equally fast every day
    assert "by number of cores" not in page.page_text(rows, plot=False)
    assert statistics.seed_estimates({("", ""): [1.0, 2.0, 3.0, 50.0]})["", ""].value == 2.5


def test_the_page_compares_with_other_libraries_task_by_task(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rliable")
    from benchmarks.zoo import page, statistics

    monkeypatch.setattr(statistics, "_REPEATS", 20)
    ended = {"seconds_to_score": "2", "seconds": "2", "environment_steps": "10"}
    rows = [run_of(system, "CartPole-v1", 0, "30", steps) | ended for system, steps in (("serial", "8"), ("sb3", "4"))]
    line = "| CartPole-v1 | `serial` | Stable-Baselines3 | 1 and 1 | 0.5 | 0.00 |"
    assert page._comparison(rows).endswith(f"{line} – | – | – |")
    monkeypatch.setattr(page, "_LEAST_ALIKE", 1)
    assert page._comparison(rows).endswith(f"{line} 1 and 1 | 1 | 0.50 |")
    rows += [row | {"task": "Acrobot-v1", "seconds_to_score": "", "seconds": "9"} for row in rows[1:]]
    rows += [rows[0] | {"task": "Acrobot-v1", "steps_to_score": "8"}]
    assert page._comparison(rows).endswith(
        "| Acrobot-v1 | `serial` | Stable-Baselines3 | 1 and 1 | 0.5 | 0.00 | 1 and 1 | – | 1.00 |"
    )
    for change in ({"cores": "2"}, {"machine": "another"}, {"date": "2026-01-02 03:04+00:00"}):
        elsewhere = rows[-1] | {"seconds_to_score": "1"} | change
        assert page._comparison([*rows[:-1], elsewhere]).endswith("| 0.5 | 0.00 | – | – | – |")
        both = [*rows, elsewhere | {"seed": "1"}]  # the steps of both, the seconds of the one that is comparable
        assert page._comparison(both).endswith("| Stable-Baselines3 | 2 and 1 | 0.5 | 0.00 | 1 and 1 | – | 1.00 |")
    frugal = [rows[0] | {"system": "frugal"}]
    more = "- CartPole-v1, `frugal`: rather more steps than Stable-Baselines3 (P(fewer) 0.00)"
    assert list(page._less_frugal([*rows, *frugal])) == [more]
    assert list(page._less_frugal([*rows, frugal[0] | {"steps_to_score": "3"}])) == []
    assert page._draw_profiles(rows) == ""  # of few seeds
    monkeypatch.setattr(page, "LEAST_SEEDS", 1)
    assert page._draw_profiles(rows).startswith("<svg")
    assert page._draw_profiles(rows[:1]) == ""


def test_a_frugal_preset_is_compared_in_its_environment_with_any_algorithm() -> None:
    """It chooses the algorithm; the other systems' tasks say theirs."""
    pytest.importorskip("rliable")
    from benchmarks.zoo import page

    ended = {"seconds_to_score": "2", "seconds": "2", "environment_steps": "10"}
    environment = "LunarLanderContinuous-v3"
    rows = [run_of("sb3", environment, 0, "220", "9") | ended]
    rows += [run_of(system, f"{environment}-crossq", 0, "220", "3") | ended for system in ("serial", "frugal")]
    assert [line for line in page._comparison(rows).splitlines() if "1 and 1" in line] == [
        f"| {environment}-crossq | `frugal` | Stable-Baselines3 | 1 and 1 | 3 | 1.00 | – | – | – |"
    ]
