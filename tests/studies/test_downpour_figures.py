"""The arithmetic of the study, with numbers worked by hand."""

from typing import Any

import numpy as np
import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.errors import ConfigError, LaunchError
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.curves import curve_of
from headrace.studies.downpour import scaling, timing, training
from headrace.studies.downpour.comparisons import SYSTEM, compare, medians, published_times
from headrace.studies.downpour.page import tiles
from headrace.studies.downpour.scaling import ScalingCase
from headrace.studies.downpour.server import MemoryPass, ShardCounts, bare_rate, median_seconds, parameter_count
from headrace.studies.downpour.study import Downpour, DownpourOptions
from headrace.studies.downpour.timing import TimingCase
from headrace.studies.downpour.training import ONG, TrainingCase
from headrace.studies.sheet import read_published
from headrace.studies.statistics import grouped
from headrace.topologies.serial import Serial
from headrace.topologies.workers import ParameterServer


def test_published_shares() -> None:
    times = published_times()
    assert list(times) == [16, 32, 64, 128]
    assert times[16]["share"] == pytest.approx((2.0 + 0.9 + 5) / 81.7)  # their 9.7 %
    assert [round(time["updates_per_second"]) for time in times.values()] == [200, 67, 25, 9]


@pytest.mark.parametrize(("pixels", "count"), [(16, 228_132), (32, 621_348), (64, 2_194_212), (128, 8_485_668)])
def test_network_has_the_published_parameters(pixels, count) -> None:
    assert parameter_count(pixels) == count
    assert count == pytest.approx(published_times()[pixels]["parameters"], rel=0.002)


def test_settings_are_the_published_ones() -> None:
    rows = read_published("downpour", "published/settings.csv", verbatim=True)
    said = {row["setting"]: row["value"] for row in rows}
    assert (float(said["discount"]), int(said["batch_size"])) == (ONG.discount, ONG.batch_size)
    assert int(said["target_copy_period_updates"]) == ONG.target_update_period
    assert said["worker_replay"].startswith(f"{ONG.replay_capacity} of which {ONG.learning_starts} ")
    assert said["epsilon"] == f"1.0 to {ONG.epsilon_final} over {ONG.epsilon_decay_steps} updates"
    assert ONG.samples_per_step == ONG.batch_size  # one update for each step
    assert said["server_optimizer"].startswith("RMSprop")
    assert ONG.optimizer == "rmsprop"
    assert said["server_optimizer"].endswith(f"lr 1e-4 decay {ONG.optimizer_decay}")
    assert ONG.learning_rate == 1e-4
    assert (ONG.double, ONG.dueling, ONG.prioritized, ONG.n_step) == (False, False, False, 1)


def test_options() -> None:
    with pytest.raises(ConfigError, match=r"^parts has rewards, which the study does not know; did you mean reward"):
        DownpourOptions(parts=("rewards",))
    with pytest.raises(ConfigError, match=r"^seeds is 0; it must be above 0"):
        DownpourOptions(seeds=0)
    chosen = DownpourOptions(parts=("staleness", "timing"), seeds=2)
    assert chosen.chosen("parts", "small") == ("staleness", "timing")
    assert chosen.words() == ["--parts", "staleness", "timing", "--seeds", "2"]
    assert [DownpourOptions().chosen("seeds", scale) for scale in ("small", "full")] == [1, 3]
    assert not DownpourOptions().chosen("parts", "small")  # which is all
    assert DownpourOptions().words() == []


@pytest.mark.parametrize("scale", ["small", "full"])
def test_what_is_compared_learns_from_as_much(scale) -> None:
    plan = Downpour().plan(scale, DownpourOptions())
    for part in (plan["reward"], plan["staleness"]):
        groups: dict[tuple[str, int], list[TrainingCase]] = {}
        for case in part:
            groups.setdefault((case.label, case.seed), []).append(case)
        for cases in groups.values():
            assert {type(case.topology) for case in cases} == {Serial, ParameterServer}
            assert len({(case.algorithm, case.environment, case.steps) for case in cases}) == 1
    policies = {(case.policy, case.topology.fetch_period > 1) for case in plan["staleness"] if case.served}
    assert ("local updates", True) in policies
    assert ("local updates", False) not in policies
    everything = [case for cases in plan.values() for case in cases]
    assert len({case.name for case in everything}) == len(everything)
    assert any(case.algorithm == ONG for case in plan["reward"]) == (scale == "full")


def test_pass_reads_three_and_writes_two() -> None:
    memory = MemoryPass(100)
    before = memory.parameters.copy()
    memory.run()
    assert np.array_equal(memory.parameters, before + memory.gradient)
    assert np.array_equal(memory.statistics, np.full(100, -1))


def test_median_of_a_few_at_least() -> None:
    calls: list[int] = []
    assert median_seconds(lambda: calls.append(1), 0.0, least=7) >= 0
    assert len(calls) == 8  # the first warms up


@pytest.mark.parametrize("transport", ["shared", "unix", "tcp"])
def test_bare_connections_carry_messages(transport) -> None:
    assert bare_rate(transport, 2, 100_000, 0.1) > 0


def timing_row(pixels: int = 16, transport: Any = "shared", number: int = 0, gradient: float = 0.04) -> dict[str, Any]:
    """Gradient 40 ms, push 3, of it 2 in the server, fetch 1; busy: push 0.5, apply 0.3, and a pass 0.2."""
    records = {
        "gradients": {
            "parameters": 250_000,
            "count": 10,
            "gradient": gradient,
            "push": 0.003,
            "push_mean": 0.0035,
            "fetch": 0.001,
        },
        "pushes": {"count": 100, "push": 0.0005, "mean": 0.0004},
        "limits": {"pass": 0.0002, "copy": 0.0001, "apply": 0.00025},
    }
    counts = [ShardCounts(5, 1.0), ShardCounts(15, 1.02), ShardCounts(115, 1.05), ShardCounts(115, 1.05)]
    return timing.figures_of(TimingCase(pixels, transport, 1.0, number), records, counts)


def test_timing_by_hand() -> None:
    row = timing_row()
    assert row.keys() == set(timing.COLUMNS)
    assert row["message_mb"] == 1.0
    assert (row["gradient_ms"], row["push_ms"], row["fetch_ms"]) == pytest.approx((40, 3, 1))
    assert (row["apply_ms"], row["move_ms"], row["share"]) == pytest.approx((2, 1.5, 0.1))
    assert (row["busy_push_ms"], row["busy_apply_ms"], row["updates_per_second"]) == pytest.approx((0.5, 0.3, 2500))
    assert (row["apply_passes"], row["apply_alone_passes"]) == pytest.approx((1.5, 1.25))


def scaling_row(pushers: int = 2, shards: int = 2, fetches: bool = True, transport: Any = "tcp") -> dict[str, Any]:
    """Two pushers with 300 and 500 updates in 2 s, of two slices each that took the server 0.4 ms each."""
    case = ScalingCase(16, transport, pushers, shards, fetches, 2.0, 0)
    records = [
        {"updates": 300, "push": 0.001, "fetch": 0.002 if fetches else None, "staleness": 100},
        {"updates": 500, "push": 0.003, "fetch": 0.004 if fetches else None, "staleness": 700},
    ]
    counts = ShardCounts(100, 1.0), ShardCounts(100 + 2000, 1.8)
    return scaling.figures_of(case, 250_000, scaling.Limits(0.001, 800.0), records, counts)


def test_scaling_by_hand() -> None:
    row = scaling_row()
    assert row.keys() == set(scaling.COLUMNS)
    assert (row["updates_per_second"], row["staleness"]) == (400, 1.0)
    assert (row["push_ms"], row["fetch_ms"], row["apply_ms"]) == pytest.approx((2, 3, 0.8))
    assert row["memory_bound_per_second"] == pytest.approx(1000 * min(2, available_cores()))
    assert (row["socket_bound_per_second"], row["bound_share"]) == (800, pytest.approx(0.5))
    assert scaling_row(fetches=False)["fetch_ms"] is None


def test_a_window_without_updates_is_no_figure() -> None:
    record = {"updates": 0, "push": None, "fetch": None, "staleness": 0}
    counts = ShardCounts(0, 0.0), ShardCounts(1, 1.0)
    with pytest.raises(LaunchError, match="pusher 0 made no update in 1 s; a longer window is required"):
        scaling.figures_of(
            ScalingCase(16, "unix", 1, 1, False, 1.0, 0), 10, scaling.Limits(1.0, 1.0), [record], counts
        )  # fmt: skip


def case_of(topology: Serial | ParameterServer, seed: int = 0, label: str = "ours") -> TrainingCase:
    environment = "headrace/Snake-v0" if label == "ours" else "headrace/SnakeFrames-v0"
    return TrainingCase(label, environment, DQN(), topology, seed, 1000, 1.0, 100, 9)


def test_training_by_hand(downpour_run) -> None:
    served = ParameterServer(workers=2, envs_per_worker=3, staleness="drop", staleness_limit=8)
    run, curve = downpour_run(case_of(served), 5.0)
    assert run.keys() == set(training.RUN_COLUMNS)
    assert all(row.keys() == set(training.CURVE_COLUMNS) for row in curve)
    assert (run["workers"], run["envs_per_worker"], run["policy"], run["staleness_limit"]) == (2, 3, "drop", 8)
    assert (run["steps_per_second"], run["updates_per_second"]) == (200, 30)
    assert (run["accepted"], run["dropped"], run["staleness"], run["staleness_32+"]) == (90, 10, 4.0, 10)
    assert curve_of(curve).steps.tolist() == [500, 1000]
    local, _ = downpour_run(case_of(ParameterServer(workers=2, fetch_period=8, local_updates=True)), 5.0)
    assert (local["policy"], local["fetch_period"]) == ("local updates", 8)
    alone, _ = downpour_run(case_of(Serial(envs_per_actor=4)), 5.0)
    assert alone.keys() == run.keys()
    assert (alone["workers"], alone["envs_per_worker"], alone["accepted"], alone["staleness"]) == (1, 4, None, None)


def test_medians_are_of_rows_that_match() -> None:
    rows = [timing_row(number=number, gradient=gradient) for number, gradient in enumerate((0.04, 0.01, 0.4))]
    assert medians(rows, pixels=16, transport="shared")["gradient_ms"] == pytest.approx(40)
    assert medians(rows, pixels=32) == {}


def test_verdicts_at_their_limits() -> None:
    rows = [timing_row(), timing_row(pixels=32, gradient=0.0399), timing_row(transport="unix")]
    found = {(each.figure, each.where): each for each in compare(rows, [])}
    share = found["push and fetch / gradient", "16 x 16, shared memory"]
    assert (share.published, share.required, share.verdict) == ("9.7%", "<= 0.1", "holds")
    assert found["push and fetch / gradient", "32 x 32, shared memory"].verdict == "MISSED"
    rate = found["updates/s of one pusher", "16 x 16, shared memory"]
    assert (rate.ours, rate.published, rate.required, rate.verdict) == (pytest.approx(2500), "200", ">= 2000", "holds")
    assert found["updates/s of one pusher", "16 x 16, Unix socket"].required == ">= 1000"
    assert found["updates/s of one pusher", "32 x 32, shared memory"].required == ""
    assert rate.shortfall == pytest.approx(-0.25)
    passes = found["apply / one pass over its memory", "16 x 16, shared memory"]
    assert (passes.ours, passes.required, passes.verdict) == (pytest.approx(1.5), "", "")  # judged by benchmarks.shards


def test_a_tile_is_green_where_all_hold_and_shows_the_worst() -> None:
    rows = [timing_row(gradient=0.08), timing_row(transport="unix", gradient=0.08)]
    good = tiles(compare(rows, []))
    assert '<div class="tile good"><b>5.0%</b>' in good
    assert '<div class="tile good"><b>2,500</b><span>updates a second of one pusher at 228 k' in good
    assert "16 x 16, shared memory, where it is worst (required &gt;= 2000, published 200)" in good
    short = tiles(compare([*rows, timing_row(transport="tcp", gradient=0.02)], []))
    assert '<div class="tile"><b>20.0%</b>' in short


@pytest.mark.parametrize(("score", "verdict", "shortfall"), [(20.0, "holds", 0.0), (0.0, "MISSED", 1.0)])
def test_snake_is_judged_where_it_was_trained_to_the_end(downpour_run, score, verdict, shortfall) -> None:
    row = downpour_run(case_of(Serial()), score).row | {"environment_steps": preset("headrace/Snake-v0").steps}
    (snake,) = compare([], [row])
    assert (snake.required, snake.verdict, snake.shortfall) == (">= 20", verdict, shortfall)
    assert snake.published.startswith("19.2")


def test_distributed_is_held_against_serial_of_the_same_settings(downpour_run) -> None:
    served = ParameterServer(workers=2)
    rows = [
        downpour_run(case, score).row
        for case, score in (
            (case_of(Serial(), 0), 4.0),
            (case_of(Serial(), 1), 6.0),
            (case_of(served, 0), 7.0),
            (case_of(served, 1), 8.0),
            (case_of(served, 0, label="published"), 1.0),
        )
    ]
    snake, score, rate = compare([], rows)
    assert (snake.figure, snake.ours, snake.required) == ("final score on Snake", 5.0, "")  # 1,000 steps are too few
    assert snake.where == "serial, the preset's settings, 1,000 steps"
    assert (score.figure, score.where) == ("final score, less that of serial", "ours settings, 2 workers")
    assert score.ours == pytest.approx(7.5 - 5.0)
    assert score.note == "2 and 2 seeds; standard deviation of serial 1.41"
    assert (rate.figure, rate.ours) == ("updates/s / updates/s of serial", pytest.approx(3.0))
    runs = [rows for _, rows in grouped(rows, *SYSTEM)]
    assert len(runs) == 3
    assert [row["seed"] for row in runs[1]] == [0, 1]
