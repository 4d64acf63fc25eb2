"""The study end to end, small: each part for a moment, its files, what is not measured twice, and its page."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.cli.main import main
from headrace.gradients.measured import STALENESS
from headrace.studies.base import Measured
from headrace.studies.downpour import scaling, study, timing
from headrace.studies.downpour.scaling import ScalingCase
from headrace.studies.downpour.study import Downpour, DownpourOptions
from headrace.studies.downpour.timing import TimingCase
from headrace.studies.downpour.training import TrainingCase
from headrace.studies.run import run_plan
from headrace.topologies.serial import Serial
from headrace.topologies.workers import ParameterServer

STUDY = Downpour()
ORIGIN = {"command", "commit", "date", "machine", "cores"}
NOTHING = {"timing": (), "scaling": (), "reward": (), "staleness": ()}
TINY = DQN(hidden=(16,), batch_size=16, learning_starts=50, replay_capacity=2_000, samples_per_step=2, n_step=1)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def toy(topology: Serial | ParameterServer, seed: int = 0) -> TrainingCase:
    return TrainingCase("ours", "CartPole-v1", TINY, topology, seed, 600, 0.5, 200, 2)


def quietly(line: str) -> None:
    """Takes a line of progress."""


@pytest.mark.slow
def test_timing_and_scaling_from_processes_to_page_and_nothing_twice(tmp_path, origin) -> None:
    plan = NOTHING | {
        "timing": (TimingCase(16, "shared", 0.1, 0), TimingCase(16, "unix", 0.1, 0)),
        "scaling": (ScalingCase(16, "shared", 2, 2, False, 1.0, 0), ScalingCase(16, "tcp", 1, 1, True, 1.0, 0)),
    }
    page = run_plan(STUDY, "small", plan, tmp_path, quietly, origin)
    shared, unix = rows_of(tmp_path / "timing.csv")
    assert shared.keys() >= ORIGIN | {"case"}
    for row in (shared, unix):
        assert int(row["parameters"]) == 228_132
        assert int(row["gradients"]) >= 5
        assert float(row["apply_ms"]) > 0
        assert float(row["updates_per_second"]) > 0
    pushed, fetched = rows_of(tmp_path / "scaling.csv")
    assert (pushed["fetch_ms"], fetched["staleness"]) == ("", "0.0")
    assert float(pushed["staleness"]) > 0  # two push, and neither fetches
    assert float(fetched["fetch_ms"]) > 0
    text = page.read_text()
    assert "<th>16 × 16, published</th><td>228,000</td><td>81.7</td><td>2</td><td>–</td><td>5</td>" in text
    assert '<th class="text">TCP, loopback, 1 shard, with fetches, 1 pusher</th>' in text
    assert not re.search(r"<(script|link|img)|https?://|url\((?!#)", text)  # needs nothing but itself

    files = {path: path.read_text() for path in (tmp_path / "timing.csv", tmp_path / "scaling.csv")}
    said: list[str] = []
    run_plan(STUDY, "small", plan, tmp_path, said.append, replace(origin, commit="another"))
    assert {path: path.read_text() for path in files} == files
    assert said == [
        "timing: 2 of 2 cases are measured already, and kept",
        "scaling: 2 of 2 cases are measured already, and kept",
    ]


@pytest.mark.slow
def test_training_from_workers_to_page(tmp_path, origin) -> None:
    served = ParameterServer(workers=2, envs_per_worker=2, fetch_period=4, staleness="drop", staleness_limit=0)
    reward = (toy(Serial(envs_per_actor=4)), toy(ParameterServer(workers=2, envs_per_worker=2)))
    plan = NOTHING | {"reward": reward, "staleness": (toy(served),)}
    page = run_plan(STUDY, "small", plan, tmp_path, quietly, origin)
    alone, together = rows_of(tmp_path / "reward.csv")
    assert (alone["topology"], alone["workers"], alone["accepted"]) == ("serial", "1", "")
    assert (together["topology"], together["workers"]) == ("parameter-server", "2")
    for row in (alone, together):
        assert int(row["environment_steps"]) >= 600
        assert row["final_episodes"] == "100"
    assert 0 < int(together["accepted"]) <= int(together["updates"])  # a last report may be missing
    (late,) = rows_of(tmp_path / "staleness.csv")
    counts = [int(late[f"staleness_{bucket}"]) for bucket in STALENESS]
    assert sum(counts) == int(late["accepted"]) + int(late["dropped"])
    assert int(late["dropped"]) == sum(counts[1:])  # what is late at all is beyond the limit
    cases = {row["case"] for row in rows_of(tmp_path / "curves.csv")}
    assert cases == {alone["case"], together["case"], late["case"]}
    assert not list(tmp_path.glob("runs/*/checkpoints"))
    text = page.read_text()
    assert '<th class="text">CartPole-v1, ours settings, parameter-server, 2 workers</th>' in text
    assert "<th>2 workers, fetch period 4, drop</th>" in text
    assert "final score, less that of serial" in (tmp_path / "comparisons.csv").read_text()


def test_other_parts_stay_on_the_page(stand_in, tmp_path, origin, downpour_run) -> None:
    trained: list[int] = []

    def measure_training(case: TrainingCase) -> Measured:
        trained.append(case.seed)
        return downpour_run(case, 5.0)

    stand_in(Downpour, reward=measure_training, staleness=measure_training)
    plan = NOTHING | {"reward": (toy(Serial()), toy(ParameterServer(workers=2))), "staleness": (toy(Serial(), seed=3),)}
    run_plan(STUDY, "small", plan, tmp_path, quietly, origin, ["reward"])
    assert trained == [0, 0]
    text = run_plan(STUDY, "small", plan, tmp_path, quietly, origin, ["staleness"]).read_text()
    assert trained == [0, 0, 3]
    assert '<th class="text">CartPole-v1, ours settings, parameter-server, 2 workers</th>' in text
    assert "final score, less that of serial" in (tmp_path / "comparisons.csv").read_text()


def test_page_shows_published_beside_ours(stand_in, tmp_path, origin, downpour_run) -> None:
    def timed(case: TimingCase) -> dict[str, Any]:
        figures = {"pixels": case.pixels, "transport": case.transport, "share": 0.05, "apply_passes": 1.2}
        return dict.fromkeys(timing.COLUMNS, 1.0) | figures | {"updates_per_second": 1500.0}

    def scaled(case: ScalingCase) -> dict[str, Any]:
        figures = {"transport": case.transport, "pushers": case.pushers, "shards": case.shards}
        return dict.fromkeys(scaling.COLUMNS, 100.0) | figures | {"fetches": int(case.fetches), "bound_share": 0.5}

    def ran(case: TrainingCase) -> Measured:
        return downpour_run(case, 4.0 if isinstance(case.topology, Serial) else 3.0)

    stand_in(Downpour, timing=timed, scaling=scaled, reward=ran, staleness=ran)
    plan = STUDY.plan("full", DownpourOptions(seeds=2))
    text = run_plan(STUDY, "small", plan, tmp_path, quietly, origin).read_text()
    assert "final score on Snake, serial, the preset&#x27;s settings" not in text  # 1,000 steps are not the preset's
    assert "at the first update it is 0.64" in text
    assert "<b>5.0%</b><span>of a gradient&#x27;s time" in text
    assert "updates/s of one pusher, 16 x 16, shared memory: 1,500, required &gt;= 2000, published 200" in text
    assert "updates/s of one pusher, 16 x 16, Unix socket" not in text  # 1,000 are required of it
    assert "<th>batch size</th><td>32</td>" in text
    assert "<td>0.85</td>" in text
    assert '<th class="text">headrace/SnakeFrames-v0, published settings, serial</th><td>4 ± 0</td>' in text
    assert '<th class="text">4 workers, fetch period 32, compensate</th><td>3 ± 0</td>' in text
    transports, labels, workers = 3, 2, 2
    assert text.count("<svg") == 1 + transports + 2 * labels + workers


def test_lander_is_left_out_where_it_can_not_be_had(monkeypatch, tmp_path) -> None:
    plan = STUDY.plan("small", DownpourOptions())
    assert STUDY.prepare(plan, {}, tmp_path, quietly) == (plan, [])
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None)
    assert STUDY.prepare({"timing": plan["timing"]}, {}, tmp_path, quietly) == ({"timing": plan["timing"]}, [])
    kept, notes = STUDY.prepare(plan, {}, tmp_path, quietly)
    assert kept == plan | {"staleness": ()}
    assert notes == ['10 runs of LunarLander-v3 are left out: pip install "headrace[box2d]"']


def test_a_mistake_is_one_line(capsys, tmp_path) -> None:
    assert main(["study", "downpour", "--parts", "speed", "--output", str(tmp_path / "study")]) == 2
    assert capsys.readouterr().err.strip().endswith("it must be one of timing, scaling, reward, staleness")
    assert not (tmp_path / "study").exists()
