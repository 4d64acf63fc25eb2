"""Rows and comparisons of the study of workers, with numbers worked out by hand."""

from math import isnan

import pytest

from headrace.gradients.measured import STALENESS
from headrace.roles.clock import ACTOR_PHASES, LEARNER_PHASES
from headrace.studies.base import Results
from headrace.studies.concurrency.cases import BY_PRIORITY, UNCHANGED, ablation_cases, fault_case, run_case
from headrace.studies.concurrency.comparisons import (
    COUNTERPARTS,
    PLANNING,
    atari,
    best_sequential,
    compare,
    groups_of,
    lunar_lander,
    reached,
    sequential,
    speedup,
    spread_of,
    started,
    to_target,
)
from headrace.studies.concurrency.measure import COLUMNS, row_of
from headrace.studies.concurrency.page import ablation_text, published_table, runs_table, verdict
from headrace.studies.concurrency.study import Concurrency
from headrace.studies.page import write_page

SUMMARY = {
    "algorithm": "dqn", "topology": "lock", "seed": 3, "solved": True, "seconds_to_score": 40.0,
    "steps_to_score": 90_000, "mean_return": 210.0, "std_return": 30.0, "evaluation_episodes": 100, "episodes": 400,
    "environment_steps": 100_000, "learner_steps": 6_000, "wall_seconds": 50.0, "total_seconds": 80.0,
    "samples_per_insert": 7.8, "staleness": 1.5, "stopped_by": "score",
    "actor_times": dict.fromkeys(ACTOR_PHASES, 0.0) | {"environment": 30.0, "inference": 10.0},
    "learner_times": dict.fromkeys(LEARNER_PHASES, 0.0) | {"train": 60.0},
    "workers": {
        "count": 2, "accepted": 5_990, "dropped": 7, "refused": 3, "lock_wait_seconds": 5.0, "pull_seconds": 1.0,
        "apply_seconds": 2.0, "staleness": dict.fromkeys(STALENESS, 0) | {"0": 3_000, "1": 1_500, "8-15": 1_500},
    },
}  # fmt: skip


def progress(seconds: float, steps: int, updates: int, alive: int = 2) -> dict[str, object]:
    return {
        "kind": "progress", "seconds": seconds, "environment_steps": steps, "learner_steps": updates,
        "actors_alive": alive, "actors_total": 2,
    }  # fmt: skip


def row(variant: str, topology: str, workers: int, seed: int = 0, **fields: object) -> dict[str, object]:
    return dict.fromkeys(COLUMNS) | {
        "variant": variant, "topology": topology, "workers": workers, "seed": seed, "killed": 0, "commit": "abc",
        **fields,
    }  # fmt: skip


def run(variant: str, topology: str, workers: int, seconds: float | None, seed: int = 0, **fields: object):
    known = {
        "solved": "no" if seconds is None else "yes", "seconds_to_score": seconds, "score": 205.0, "episodes": 500,
        "steps_to_score": None if seconds is None else int(1_000 * seconds), "seconds_per_episode": 0.2,
        "environment_steps": 120_000, "samples_per_step": 8.0, "samples_per_step_set": 8.0,
        "start_seconds": 4.0 if workers > 1 else 1.0,
    }  # fmt: skip
    return row(variant, topology, workers, seed, **(known | fields))


def test_a_row_says_what_the_run_says() -> None:
    records = [
        progress(2.0, 1_000, 0, alive=1),
        progress(4.0, 3_000, 100, alive=1),
        progress(5.0, 5_000, 200),  # all have reported: counted from 8 s on
        progress(7.0, 9_000, 600),
        {"kind": "evaluation", "seconds": 8.0},
        progress(8.0, 10_000, 700),
        progress(12.0, 30_000, 1_900),
        progress(18.0, 40_000, 2_700),
    ]
    found = row_of(run_case("dqn", "lock", 2, 3), SUMMARY, records)
    assert found.keys() == set(COLUMNS)
    assert (found["workers"], found["environments"], found["seed"]) == (2, 32, 3)
    assert (found["solved"], found["seconds_to_score"], found["steps_to_score"]) == ("yes", 40.0, 90_000)
    assert found["seconds_per_episode"] == 50 / 400
    assert found["steps_per_second"] == (40_000 - 10_000) / 10
    assert found["updates_per_second"] == (2_700 - 700) / 10
    assert found["lock_wait_share"] == 5 / 100
    assert (found["staleness"], found["staleness_0"], found["staleness_1"]) == (1.5, 0.5, 0.25)
    assert (found["staleness_8-15"], found["staleness_32+"]) == (0.25, 0.0)
    assert (found["accepted"], found["dropped"], found["refused"]) == (5_990, 7, 3)
    assert (found["samples_per_step"], found["samples_per_step_set"]) == (6_010 * 128 / 100_000, 16.0)
    assert (found["deaths"], found["updates_after_death"], found["updates_after_death_share"]) == (0, None, None)
    assert (found["start_seconds"], found["alive_at_end"]) == (5.0, 2)


def test_a_row_without_workers_or_score_has_gaps() -> None:
    summary = SUMMARY | {"workers": None, "solved": False, "seconds_to_score": None, "topology": "serial"}
    found = row_of(run_case("dqn", "serial", 1, 0), summary, [progress(1.0, 10, 1)])
    assert found["samples_per_step"] == 6_000 * 128 / 100_000  # where there are no workers, of the updates
    assert found.keys() == set(COLUMNS)
    assert found["solved"] == "no"
    assert found["updates_per_second"] is None  # over before it was warm
    assert found["lock_wait_share"] is found["staleness"] is found["staleness_0"] is found["accepted"] is None


def test_the_replay_ratio_of_batches_in_part_simulated_is_the_table_s() -> None:
    summary = SUMMARY | {"workers": None, "samples_per_insert": 7.8}
    ratios = [row_of(case, summary, [])["samples_per_step"] for case in ablation_cases(0)]
    dyna_q = 6_000 * ablation_cases(0)[3].config.algorithm.batch_size / 100_000
    assert ratios == [7.68, 7.68, 7.8, dyna_q, 7.8]


def test_updates_after_a_death_are_counted_from_the_next_record() -> None:
    records = [
        progress(5.0, 5_000, 200),
        {"kind": "exit", "role": "evaluator 0", "seconds": 5.5},
        progress(9.0, 60_000, 2_000),
        {"kind": "exit", "role": "worker 3", "seconds": 9.5},
        progress(10.0, 72_000, 2_500, alive=1),
        progress(11.0, 80_000, 2_900),
    ]
    case = fault_case("lock", 0, disturbed=True)
    found = row_of(case, SUMMARY, records, killed=1)
    assert (found["killed"], found["deaths"], found["updates_after_death"]) == (1, 1, 3_500)
    assert found["updates_after_death_share"] == 3_500 / (128_000 * 16 / 128)  # 128,000 steps were left
    assert found["alive_at_end"] == 2
    last = row_of(case, SUMMARY, records[:4], killed=1)
    assert (last["updates_after_death"], last["updates_after_death_share"]) == (0, None)
    lost = row_of(case, SUMMARY, records[:5], killed=1)
    assert lost["alive_at_end"] == 1


def test_a_run_that_never_got_there_counts_as_one_without_end() -> None:
    runs = [run("dqn", "lock", 2, seconds, seed) for seed, seconds in enumerate((30.0, None, 20.0))]
    assert spread_of(runs, "seconds_to_score")[:2] == (30.0, 20.0)
    assert str(spread_of(runs, "seconds_to_score")) == "30 (20 to never)"
    assert reached(runs, "seconds_to_score") == 30.0
    assert isnan(reached(runs[:2], "seconds_to_score"))
    assert str(spread_of(runs[:2], "seconds_to_score")) == "–"
    even = [run("dqn", "lock", 2, seconds) for seconds in (10.0, 40.0, 20.0, 30.0)]
    assert reached(even, "seconds_to_score") == 25.0


RUNS = [
    run("dqn", "serial", 1, 60.0),
    run("dqn", "hogwild", 4, 20.0, episodes=700),
    run("dqn", "hogwild", 1, 64.0),
    run("a3c", "serial", 1, 120.0, samples_per_step=None, samples_per_step_set=None),
    run("a3c", "hogwild", 2, 40.0, samples_per_step=None, samples_per_step_set=None),
    run("dqn", "lock", 2, None, samples_per_step=7.0),
]


def test_speedups_are_against_the_own_and_the_best_sequential_run() -> None:
    assert groups_of(RUNS) == [
        ("dqn", "serial", 1),
        ("dqn", "hogwild", 1),
        ("dqn", "hogwild", 4),
        ("a3c", "serial", 1),
        ("a3c", "hogwild", 2),
        ("dqn", "lock", 2),
    ]
    assert sequential(RUNS, "a3c") == 120.0
    assert best_sequential(RUNS) == ("dqn", 60.0)
    assert speedup(RUNS, ("a3c", "hogwild", 2), ("a3c", "serial", 1)) == 3.0
    assert isnan(speedup(RUNS, ("dqn", "lock", 2), ("dqn", "serial", 1)))
    cells = runs_table(RUNS)
    without = "<td>4</td><td>3.69</td>"  # (60 - 1) / (20 - 4)
    assert f"<th>dqn, hogwild × 4</th><td>1 of 1</td><td>20</td><td>3</td>{without}<td>3</td><td>20,000</td>" in cells
    assert "<th>a3c, hogwild × 2</th><td>1 of 1</td><td>40</td><td>3</td><td>4</td><td>3.31</td><td>1.5</td>" in cells
    unsolved = "<td>–</td><td>–</td><td>4</td><td>–</td><td>–</td><td>–</td><td>–</td><td>–</td><td>–</td><td>0.2</td>"
    assert f"<th>dqn, lock × 2</th><td>0 of 1</td>{unsolved}" in cells  # its episodes are those of a time limit
    assert "speed-up, dqn" in cells


def test_what_it_took_to_the_target_is_of_runs_that_got_there() -> None:
    runs = [run("dqn", "lock", 2, seconds, seed, episodes=count)
            for seed, (seconds, count) in enumerate(((30.0, 300), (None, 9), (20.0, 200)))]  # fmt: skip
    assert to_target(runs, "episodes") == 300.0  # the second counts as one without end
    assert isnan(to_target(runs[:2], "episodes"))
    assert [each["seconds_to_score"] for each in started(runs)] == [26.0, None, 16.0]
    assert not started([*runs, run("dqn", "lock", 2, 9.0, start_seconds=None)])  # measured before there was a column


def test_published_figures_stand_beside_ours() -> None:
    fields = ("episodes", "minutes", "seconds_per_episode", "speedup")
    said = {key: tuple(row[field] for field in fields) for key, row in lunar_lander().items()}
    assert said["dqn_hogwild", 4] == (562, 20, 2.15, 3.9)
    assert said["dyna_q", 4] == (441, 44, None, None)
    assert {name for name, _ in lunar_lander()} == set(COUNTERPARTS)
    assert atari()["A3C"] == {1: 1.0, 2: 2.1, 4: 3.7, 8: 6.9, 16: 12.5}
    cells = published_table(RUNS)
    ours = "<td>dqn, hogwild</td><td>700</td><td>120,000</td><td>0.333</td><td>0.2</td><td>3.2</td><td>3</td>"
    assert f"<th>dqn_hogwild, 4</th><td>562</td><td>20</td><td>2.15</td><td>3.9</td>{ours}" in cells
    alone = published_table([run("dyna-q", "serial", 1, 60.0), run("dyna-q", "apex", 4, 20.0)])
    assert "<td>0.333</td><td>0.2</td><td>–</td><td>3</td>" in alone  # there is no Dyna-Q of one process with planners
    assert "<th>dyna_q, 8</th><td>473</td><td>44</td><td>–</td><td>–</td><td>dyna-q, apex</td><td>–</td>" in cells


def found(comparisons, figure: str) -> dict[str, tuple[float | None, str]]:
    return {each.where: (each.ours, each.verdict) for each in comparisons if each.figure == figure}


def test_two_workers_are_held_against_one_process() -> None:
    throughput = [
        row("dqn", topology, workers, updates_per_second=rate)
        for topology, two in (("hogwild", 150.0), ("parameter-server", 150.0), ("lock", 90.0))
        for workers, rate in ((1, 100.0), (2, two))
    ]  # fmt: skip
    figure = "updates/s, 2 workers / one process"
    ratios = found(compare([], throughput, [], []), figure)
    assert ratios == {
        "dqn, hogwild": (1.5, "MISSED"),
        "dqn, parameter-server": (1.5, "holds"),
        "dqn, lock": (0.9, ""),
    }
    serial = row("dqn", "serial", 1, updates_per_second=120.0)  # faster than one worker
    assert found(compare([], [*throughput, serial], [], []), figure)["dqn, parameter-server"] == (1.25, "MISSED")
    assert not compare([], throughput[:1], [], [])
    still = [each | {"updates_per_second": 0.0} for each in throughput[:1]]
    assert not compare([], [*still, throughput[1]], [], [])


def test_every_run_must_get_there_at_an_equal_replay_ratio() -> None:
    comparisons = compare(RUNS, [], [], [])
    solved = found(comparisons, "runs that reach the target (%)")
    assert solved["dqn, hogwild"] == (100.0, "holds")
    assert solved["dqn, lock"] == (0.0, "MISSED")
    (ratio,) = found(comparisons, "samples per step, off what is set (%)").items()
    assert ratio == ("dqn, lock × 2, seed 0, where it is worst", (pytest.approx(12.5), "MISSED"))
    assert verdict(comparisons).startswith("Of 6 requirements that were measured, 4 are met; not met: runs that reach")
    near = [run("dqn", "lock", 2, 9.0, samples_per_step=7.7)]
    assert verdict(compare(near, [], [], [])) == "Of 2 requirements that were measured, 2 are met."
    assert verdict([]) == ""
    off = row("dqn", "lock", 2, samples_per_step=9.0, samples_per_step_set=8.0)
    for parts in (([], [off], [], []), ([], [], [], [off])):
        assert found(compare(*parts), "samples per step, off what is set (%)").popitem()[1] == (12.5, "MISSED")


def ablation(steps: dict[str, tuple[int | None, ...]]):
    rows = [
        row(name, "serial", 1, seed, steps_to_score=count, updates=7, environment_steps=count, solved="yes")
        for name, counts in steps.items()
        for seed, count in enumerate(counts)
    ]
    return rows, compare([], [], rows, [])


def test_planning_must_save_real_steps_beyond_the_spread() -> None:
    comparisons = ablation({
        "dqn": (90_000, 61_000),
        "dyna-q": (40_000, 60_000),
        "dqn, dyna-q's updates": (70_000, 55_000),
        "dyna-q, no planning": (30_000, 35_000),
        BY_PRIORITY: (20_000, 20_000),  # it plans too
    })[1]  # fmt: skip
    assert found(comparisons, PLANNING) == {
        "dqn": (1.51, "holds"),
        "dqn, dyna-q's updates": (1.25, "undecided"),
        "dyna-q, no planning": (0.65, "MISSED"),
    }
    assert comparisons[1].note.endswith("dyna-q: 50,000 (40,000 to 60,000); spreads overlap")
    assert verdict(comparisons) == (
        f"Of 3 requirements that were measured, 1 are met; not met: {PLANNING} (dyna-q, no planning); "
        f"undecided: {PLANNING} (dqn, dyna-q's updates)."
    )
    for steps, expected in (
        ({"dqn": (None, None), "dyna-q": (1, 2)}, (None, "holds")),
        ({"dqn": (1, 2), "dyna-q": (None, None)}, (None, "MISSED")),
        ({"dqn": (1, 2, None), "dyna-q": (None, None, 1)}, (None, "MISSED")),
        ({"dqn": (None, None), "dyna-q": (None, None)}, (None, "undecided")),
        ({"dqn": (9,), "dyna-q": (3,)}, (3.0, "undecided")),  # one run decides nothing
    ):
        assert found(ablation(steps)[1], PLANNING) == {"dqn": expected}
    assert not ablation({"dqn": (90_000,)})[1]


def test_the_page_says_whether_it_is_planning_and_why_not() -> None:
    gain = ablation_text(*ablation({"dqn, dyna-q's updates": (9, 8), "dyna-q": (3, 4), "dyna-q, no planning": (9, 8)}))
    assert gain[0].startswith("Planning saves real steps")
    assert gain[1].endswith("of 2 seeds that have both, 2 came to the same steps and updates.")
    mixed = ablation_text(*ablation({"dqn, dyna-q's updates": (9, 8), "dyna-q": (3, 9), "dyna-q, no planning": (9, 7)}))
    assert mixed[0].startswith("Whether planning saves real steps at as many updates, these runs do not decide")
    assert "jumps that a single state hardly predicts" in mixed[1]
    assert mixed[2].endswith("of 2 seeds that have both, 1 came to the same steps and updates.")
    none = ablation_text(*ablation({"dyna-q": (7, 9), "dyna-q, no planning": (2, 3)}))
    assert none[0].startswith("Planning does not save real steps")
    assert len(none) == 2
    assert not ablation_text([], [])


def test_killed_workers_may_not_cost_the_score() -> None:
    after = "updates after a worker was killed / those due, least of a run"
    back = "runs whose killed worker came back (%)"
    score = "mean score, a quarter of the workers killed on the way"
    faults = [row("dqn", "lock", 4, seed, score=score_) for seed, score_ in enumerate((150.0, 230.0, 190.0))]
    hit = [
        row("dqn", "lock", 4, 0, score=160.0, killed=1, updates_after_death_share=0.9, alive_at_end=4),
        row("dqn", "lock", 4, 1, score=150.0, killed=1, updates_after_death_share=0.5, alive_at_end=4),
    ]
    comparisons = compare([], [], [], faults + hit)
    assert found(comparisons, score) == {"lock": (155.0, "holds")}
    assert found(comparisons, after) == {"lock": (0.5, "holds")}
    assert found(comparisons, back) == {"lock": (100.0, "holds")}
    stuck = [hit[0], hit[1] | {"score": 130.0, "updates_after_death_share": 0.49, "alive_at_end": 3}]
    comparisons = compare([], [], [], faults + stuck)
    assert {each.verdict for each in comparisons} == {"MISSED"}
    assert found(comparisons, back) == {"lock": (50.0, "MISSED")}
    assert comparisons[2].note == "lowest 130; undisturbed: mean 190, 150 to 230, 3 seeds"
    assert not compare([], [], [], faults)
    unknown = [hit[0] | {"score": None, "updates_after_death_share": None, "alive_at_end": None}]
    assert not compare([], [], [], faults + unknown)


def test_the_page_shows_every_part(tmp_path, origin) -> None:
    shared = {f"staleness_{bucket}": 1 / len(STALENESS) for bucket in STALENESS}
    shared |= {"staleness": 4.0, "lock_wait_share": 0.02, "accepted": 5, "dropped": 1, "refused": 0}
    runs = [each | shared if each["topology"] != "serial" else each for each in RUNS]
    throughput = [
        row("dqn", "lock", workers, updates_per_second=rate, steps_per_second=10 * rate, **shared)
        for workers, rate in ((1, 100.0), (2, 170.0))
    ]
    ablation = [
        run(name, "serial", 1, seconds, seed)
        for name, seconds in (("dqn", 90.0), ("dyna-q", 60.0))
        for seed in range(2)
    ]
    faults = [run("dqn", "lock", 4, None, score=200.0), run("dqn", "lock", 4, None, killed=1, deaths=1, score=210.0)]
    factors = [run(UNCHANGED, "serial", 1, seconds) for seconds in (10.0, 20.0, 30.0)]
    factors += [run(UNCHANGED, "hogwild", 8, seconds) for seconds in (40.0, 50.0, 60.0)]
    factors += [run("a change", "hogwild", 8, seconds, staleness=6.5) for seconds in (20.0, 25.0, None)]
    factors += [
        run("another change", *each, seconds) for each in (("serial", 1), ("hogwild", 8)) for seconds in (30.0,)
    ]
    parts = {
        "runs": runs,
        "throughput": throughput,
        "ablation": ablation,
        "faults": faults,
        "simulated": runs,
        "factors": factors,
    }
    comparisons = compare(runs, throughput, ablation, faults)
    page = tmp_path / "page.html"
    write_page(page, *Concurrency().page(Results("small", {}, parts, comparisons)), runs, ["something failed"], origin)
    text = page.read_text()
    for heading in ("Left out", "What is required", "Published and here", "LunarLander to 200", "Throughput",
                    "Staleness", "Dyna-Q: is it planning?", "A quarter of the workers killed",
                    "In simulated time", "Why do several workers need more steps?", "How it was measured"):  # fmt: skip
        assert f"<h2>{heading}</h2>" in text
    assert "<th>dqn, lock × 2</th><td>170</td><td>1.7</td><td>1,700</td><td>–</td><td>2.0%</td><td>1</td>" in text
    assert "<th>dqn</th><td>2 of 2</td><td>90,000</td><td>1.5</td><td>90</td>" in text
    assert "<th>lock × 4, 1 killed</th><td>210</td>" in text
    factor = "<td>2 of 3</td><td>25,000 (20,000 to never)</td><td>1.25, P 0.72</td><td>0.5, P 0.33</td>"
    assert f"<th>a change, hogwild × 8</th>{factor}" in text
    own = "<td>1 of 1</td><td>30,000</td><td>1, P 0.50</td><td>0.6, P 0.00</td>"
    assert f"<th>another change, hogwild × 8</th>{own}" in text
    workers = "<td>3 of 3</td><td>50,000 (40,000 to 60,000)</td><td>2.5, P 1.00</td><td>–</td>"
    assert f"<th>{UNCHANGED}, hogwild × 8</th>{workers}" in text
    assert "12.5%" in text
    worst = "% of the runs reach the target: dqn, lock, where it is worst (required &gt;= 100)"
    assert f'<div class="tile"><b>0</b><span>{worst}</span>' in text
    assert '<div class="tile good"><b>1.5</b><span>real steps without planning over Dyna-Q' in text
    missed = "<td>dqn, lock</td><td>0</td><td>&gt;= 100</td><td>not met</td><td>not by 2 workers, seed 0</td>"
    assert f"<th>runs that reach the target (%)</th>{missed}" in text
    assert "counts the episodes of one of N" in text
    empty = {part: [] for part in parts}
    write_page(page, *Concurrency().page(Results("small", {}, empty, [])), [], [], origin)
    assert "<h2>How it was measured</h2>" in page.read_text()
    assert "nan" not in text
