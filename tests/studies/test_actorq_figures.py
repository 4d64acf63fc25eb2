"""The study's arithmetic, by hand."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from headrace.errors import LaunchError
from headrace.studies.actorq.acting import ActingCase
from headrace.studies.actorq.acting import figures_of as acting_figures
from headrace.studies.actorq.cases import TRAINING, training_case
from headrace.studies.actorq.comparisons import compare, matched, reached
from headrace.studies.actorq.curves import Curve, band, held_at, running_mean, value_at
from headrace.studies.actorq.energy import Energy
from headrace.studies.actorq.tasks import TASKS, breakdown, published_time, reference

ACTING = ActingCase("cheetah-run", "dm_control/cheetah-run", (2048,) * 3, "int8", 2, 30, 4.0, 1.0, 0)


def curve(*scores: float) -> Curve:
    count = np.arange(1, len(scores) + 1, dtype=float)
    return Curve(100 * count, 2 * count, np.array(scores, float))


def test_running_mean_over_ten() -> None:
    assert running_mean([2.0, 4.0, 9.0]).tolist() == [2.0, 3.0, 5.0]
    assert running_mean(list(range(12)))[-1] == pytest.approx(6.5)  # of 2 to 11
    assert running_mean([1.0, 2.0, 3.0], window=2).tolist() == [1.0, 1.5, 2.5]
    assert running_mean([]).tolist() == []


@pytest.mark.parametrize(
    ("scores", "place"), [((1, 5, 1, 5, 6), 3), ((5, 5), 0), ((1, 2, 5), None), ((), None), ((4.9, 4.9), None)]
)
def test_a_target_is_reached_where_it_is_held(scores: tuple[float, ...], place: int | None) -> None:
    assert held_at(curve(*scores), 5.0) == place


def test_bands_lie_where_all_seeds_have_been() -> None:
    long, short = curve(10, 10, 10, 10), Curve(np.array([150.0, 250.0]), np.array([1.0, 2.0]), np.array([20.0, 20.0]))
    steps = band([long, short], "steps")
    assert (steps.x[0], steps.x[-1]) == (150, 250)
    assert set(steps.mean) == {15.0}
    assert steps.spread == pytest.approx(np.full(len(steps.x), 50**0.5))  # of 10 and 20
    assert (band([long], "seconds").x[-1], band([long], "seconds").spread.max()) == (8.0, 0.0)
    assert len(band([], "steps").x) == 0


def test_a_score_between_two_evaluations() -> None:
    assert value_at(curve(10, 20), 150) == pytest.approx(12.5)  # half way from 10 to the running mean 15


def report(steps: int, environment: float, inference: float, pull: float, load: float, fetched: float, count: int):
    seconds = {
        "environment": environment,
        "inference": inference,
        "pull": pull,
        "load": load,
        "push": 0.0,
        "other": 0.0,
    }
    beside = {"fetch": fetched, "deserialize": 0.0, "load": 2 * fetched}
    return {"steps": steps, "seconds": seconds, "refresh": {"count": count, "seconds": beside, "latency_seconds": 0.1}}


def test_actors_in_a_window() -> None:
    before = {0: report(100, 1, 1, 1, 1, 1, 3), 1: report(0, 0, 0, 0, 0, 0, 0)}
    after = {0: report(600, 1.4, 1.5, 1.02, 1.08, 1.5, 5), 1: report(500, 0.4, 0.5, 0.02, 0.08, 0.5, 2)}
    row = acting_figures(ACTING, before, after, [0.3, 0.1, 0.08], joules=50.0)
    assert row["steps_per_second"] == pytest.approx(1000)  # 2 actors, 500 steps each in a second of theirs
    assert row["inference_s_per_1000"] == pytest.approx(1.0)
    assert row["parameter_share"] == pytest.approx(0.1)
    assert (row["beside_fetch_s_per_1000"], row["beside_load_s_per_1000"]) == pytest.approx((1.0, 2.0))
    assert (row["policies_installed"], row["refresh_ms"], row["joules_per_1000"]) == (4, 100.0, 50.0)
    assert row["hidden"] == "2048x2048x2048"
    quiet = replace(ACTING, publications_per_second=0.0)
    assert acting_figures(quiet, before, after, [], None)["refresh_ms"] is None
    with pytest.raises(LaunchError, match="cheetah-run, int8, 2 actors, pull period 30: no actor made a step in 1 s"):
        acting_figures(ACTING, before, before, [], None)


def test_a_run_and_its_curve(training_rows) -> None:
    run, rows = training_rows("int8", 0, [(1000, 5.0, 700.0), (2000, 9.0, 950.0), (3000, 14.0, 960.0)])
    assert (run["seconds_to_reward"], run["steps_to_reward"]) == (9.0, 2000)  # 941.22 is the target
    assert (run["final_return"], run["hidden"], run["actors"]) == (960.0, "256x256", 4)
    assert run["steps_per_second"] == pytest.approx(3000 / 14)
    assert (run["actor_inference"], run["learner_wait"]) == (0.5, 0.25)
    assert [row["mean_return"] for row in rows] == [700.0, 950.0, 960.0]


def test_time_to_reward_is_of_all_seeds_or_not_at_all(training_rows) -> None:
    runs, curves = [], []
    for precision, seconds in (("fp32", (40.0, 60.0, 50.0)), ("int8", (10.0, 20.0, 30.0))):
        for seed, each in enumerate(seconds):
            run, rows = training_rows(precision, seed, [(1000, each, 950.0), (2000, 100.0, 960.0)])
            runs.append(run)
            curves += rows
    found = {each.figure: each for each in compare([], [], runs, curves)}
    speedup = found["time to reward, fp32 / int8"]
    assert (speedup.ours, speedup.published, speedup.verdict) == (2.5, "3.12", "MISSED")
    score = found["score, int8 against fp32 (%)"]
    assert (score.ours, score.verdict, score.where) == (0.0, "holds", "cartpole-balance, after 2,000 steps")
    failed, _ = training_rows("int8", 3, [(1000, 10.0, 10.0), (2000, 100.0, 20.0)])
    none = compare([], [], [*runs, failed], curves)[0]
    assert (none.ours, none.verdict) == (None, "MISSED")
    assert none.note == "the target was reached by fp32 in 3 of 3 seeds, by int8 in 3 of 4 seeds"
    assert isnan(reached([*runs, failed], "cartpole-balance", "int8").seconds)


def test_int8_is_compared_where_all_have_been(training_rows) -> None:
    _, long = training_rows("fp32", 0, [(1000, 1.0, -100.0), (2000, 2.0, -100.0), (3000, 3.0, 0.0)])
    run, short = training_rows("int8", 0, [(1000, 1.0, -104.0), (2000, 2.0, -108.0)])
    steps, score = matched([*long, *short], "cartpole-balance", ("fp32", "int8", "fp16"))
    assert (steps, score["fp32"], score["int8"]) == (2000, -100.0, -106.0)
    assert isnan(score["fp16"])
    change = compare([], [], [run], [*long, *short])[-1]
    assert (change.ours, change.verdict) == (pytest.approx(-6.0), "MISSED")  # 5 % are allowed


def test_throughput_and_parameters_against_what_is_required() -> None:
    def row(precision: str, rate: float, **fields: float) -> dict[str, object]:
        return {"task": "cheetah-run", "actors": 1, "precision": precision, "steps_per_second": rate, **fields}

    rates = [row("fp32", 100.0), row("int8", 200.0), row("fp32", 100.0), row("int8", 240.0), row("fp16", 50.0)]
    ratios = {each.figure: each for each in compare(rates, [], [], [])}
    assert ratios["environment steps/s, int8 / fp32"].ours == pytest.approx(2.2)
    assert ratios["environment steps/s, int8 / fp32"].verdict == "MISSED"  # 2.5 is required
    assert (ratios["environment steps/s, fp16 / fp32"].ours, ratios["environment steps/s, fp16 / fp32"].verdict) == (
        0.5,
        "",
    )
    pulls = [
        row("int8", 1.0, pull_period=30, parameter_share=0.04, refresh_ms=200.0),
        row("fp32", 1.0, pull_period=30, parameter_share=0.5, refresh_ms=200.0),
    ]
    share, refresh, others, _ = compare([], pulls, [], [])
    assert (share.published, share.required, share.verdict) == ("29", "<= 5", "holds")
    assert (refresh.required, refresh.verdict) == ("<= 150", "MISSED")
    assert (others.published, others.verdict) == ("30", "")


def test_published_figures_are_in_the_package() -> None:
    assert published_time(TASKS["cartpole-balance"]).speedup == 3.12
    assert [published_time(task).speedup for task in TASKS.values()][-3:] == [3.7, 2.22, 5.41]
    assert breakdown()[30, "int8"].parameter_share == pytest.approx(2.6 / 9.1)
    assert reference(TASKS["cartpole-balance"]) == "994 in 100,000 steps (Acme-style D4PG)"
    assert reference(TASKS["humanoid-walk"]) == ""
    assert TRAINING.keys() == TASKS.keys()


def test_cases_differ_by_what_decides_them() -> None:
    cases = {
        training_case("cartpole-balance", precision, seed, device).name
        for precision in ("fp32", "int8")
        for seed in (0, 1)
        for device in ("cpu", "cuda")
    }
    assert len(cases) == 8
    assert training_case("cheetah-run", "int8", 0, "cuda").algorithm.hidden == (2048, 2048, 2048)
    assert training_case("Acrobot-v1", "int8", 0, "cpu").target == -107.45


def package(folder, name: str, energy: int, most: int = 1_000_000):
    path = folder / name
    path.mkdir()
    (path / "energy_uj").write_text(f"{energy}\n")
    (path / "max_energy_range_uj").write_text(f"{most}\n")
    return path


def test_energy_of_all_packages_and_past_a_counter_s_end(tmp_path) -> None:
    first, second = package(tmp_path, "intel-rapl:0", 500_000), package(tmp_path, "intel-rapl:1", 900_000)
    part = package(tmp_path, "intel-rapl:0:0", 0)
    energy = Energy(tmp_path)
    before = energy.joules()
    (first / "energy_uj").write_text("750000")
    (second / "energy_uj").write_text("100000")
    (part / "energy_uj").write_text("900000")  # is in the first already
    assert energy.since(before) == pytest.approx(0.25 + 0.2)
    assert energy.why_not == ""


def test_no_energy_and_why(tmp_path) -> None:
    energy = Energy(tmp_path / "none")
    assert "has no intel-rapl package" in energy.why_not
    assert energy.since(energy.joules()) is None


def test_figures_of_a_run_that_never_came_there(training_rows) -> None:
    run, _ = training_rows("int8", 0, [(1000, 5.0, 950.0)])  # once is luck
    assert run["seconds_to_reward"] is None
