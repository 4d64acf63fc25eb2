"""The study end to end, small: toys in place of the tasks, its files, what is not measured twice, and its page."""

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.algorithms.d4pg.config import D4PG
from headrace.cli.main import main
from headrace.launch.base import Exit
from headrace.roles.base import Role
from headrace.roles.clock import ACTOR_PHASES
from headrace.roles.messages import REPORTS
from headrace.servers import Endpoint, connect_role
from headrace.studies.actorq import acting, study
from headrace.studies.actorq.acting import ActingCase, CrossoverCase, measure_acting
from headrace.studies.actorq.comparisons import compare_simulated
from headrace.studies.actorq.page import TILES, limits, settings_table
from headrace.studies.actorq.simulated import SimulatedCase, simulated_case
from headrace.studies.actorq.study import ActorQ, ActorQOptions
from headrace.studies.actorq.training import TrainingCase, training_case
from headrace.studies.base import Measured
from headrace.studies.comparisons import Comparison
from headrace.studies.page import worst_tiles
from headrace.studies.run import run_plan
from headrace.topologies.apex import Apex

ORIGIN = {"command", "commit", "date", "machine", "cores"}
TARGET = "headrace.environments.toy:Target"
ACTING = ActingCase("cartpole-balance", TARGET, (16, 16), "fp32", 1, 30, 0.0, 0.3, 0)
SIZE = "x".join(map(str, training_case("cartpole-balance", "fp32", 0, "cpu").algorithm.hidden))
STUDY = ActorQ()
NOTHING = {part.name: () for part in STUDY.parts if part.measure}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def toy(precision: str) -> TrainingCase:
    algorithm = D4PG(
        hidden=(32,), critic_hidden=(32,), batch_size=32, replay_capacity=5_000, learning_starts=100, value_min=0,
        value_max=10, samples_per_step=8, publish_period=5,
    )  # fmt: skip
    topology = Apex(actors=1, envs_per_actor=1, chunk_steps=10, pull_period=20, precision=precision)
    return TrainingCase("cartpole-balance", TARGET, algorithm, topology, 0, 600, 0.2, 2, 1.0, "cpu")


def test_simulated_runs_have_the_published_actors_and_two_sources_of_costs() -> None:
    plan = STUDY.plan("small", ActorQOptions(tasks=("CartPole-v1", "cartpole-balance"), simulated=True))
    assert {part: len(cases) for part, cases in plan.items() if cases} == {"simulated": 8}
    assert {(case.topology.actors, case.topology.envs_per_actor) for case in plan["simulated"]} == {(4, 1)}
    assert {case.algorithm.hidden for case in plan["simulated"]} == {(64, 64), (256, 256)}
    assert len({case.name for case in plan["simulated"]}) == 8


@pytest.mark.parametrize(("task", "step_ms"), [("cartpole-balance", 9.1), ("Acrobot-v1", 5.7 + 3.4 * 2 / 9)])
def test_published_steps_cost_what_their_pull_period_makes_them_cost(task: str, step_ms: float) -> None:
    assert simulated_case(task, "int8", 0, "published").step_cost()["step_ms"] == pytest.approx(step_ms)


@pytest.mark.slow
def test_simulated_runs_repeat_and_take_as_long_as_their_steps_cost(tmp_path, origin) -> None:
    plan = NOTHING | {"simulated": tuple(SimulatedCase.of(toy(name), "published") for name in ("fp32", "int8"))}
    pages = [run_plan(STUDY, "small", plan, tmp_path / str(turn), lambda line: None, origin) for turn in range(2)]
    first, again = ({row["precision"]: row for row in rows_of(page.with_name("simulated.csv"))} for page in pages)
    assert first == again  # rows are in the order in which runs ended
    full, quantized = (float(first[precision]["steps_per_second"]) for precision in ("fp32", "int8"))
    assert quantized / full == pytest.approx(14.9 / 9.1, rel=0.1)
    assert "Four actors with an environment each" in pages[0].read_text()


def test_simulated_times_are_compared_with_published_ones_for_each_source() -> None:
    run = {"task": "cartpole-balance", "seed": 0, "costs": "published", "steps_to_reward": 1000.0}
    runs = [run | {"precision": name, "seconds_to_reward": seconds} for name, seconds in (("fp32", 9.0), ("int8", 6.0))]
    (found,) = compare_simulated(runs, [])
    assert (found.figure, found.ours) == ("time to reward, fp32 / int8, simulated, costs as published", 1.5)
    assert found.verdict == "MISSED"


@pytest.mark.slow
def test_from_processes_to_page_and_nothing_twice(tmp_path, origin) -> None:
    acting = tuple(replace(ACTING, precision=precision) for precision in ("fp32", "int8"))
    pulls = (replace(ACTING, precision="int8", publications_per_second=20.0, seconds=1.0),)
    plan = NOTHING | {
        "throughput": acting,
        "breakdown": pulls,
        "crossover": (CrossoverCase(16, 2),),
        "training": (toy("int8"),),
    }
    said: list[str] = []
    page = run_plan(STUDY, "small", plan, tmp_path, said.append, origin)
    for name, count in (("throughput", 2), ("breakdown", 1), ("crossover", 1), ("training", 1)):
        rows = rows_of(tmp_path / f"{name}.csv")
        assert len(rows) == count
        assert rows[0].keys() >= ORIGIN | {"case"}
    assert all(float(row["steps_per_second"]) > 0 for row in rows_of(tmp_path / "throughput.csv"))
    (pull,) = rows_of(tmp_path / "breakdown.csv")
    assert float(pull["steps_per_second"]) > 0
    (run,) = rows_of(tmp_path / "training.csv")
    assert int(run["environment_steps"]) >= 600
    assert (run["final_episodes"], run["target"]) == ("100", "1.0")
    evaluations = rows_of(tmp_path / "curves.csv")
    assert int(evaluations[-1]["environment_steps"]) >= 600
    assert {row["case"] for row in evaluations} == {run["case"]}
    assert not list(tmp_path.glob("runs/*/checkpoints"))
    assert "Quantized actors" in page.read_text()

    made_each_time = ("comparisons.csv", "left_out.csv")
    files = {path: path.read_text() for path in tmp_path.glob("*.csv") if path.name not in made_each_time}
    said.clear()
    run_plan(STUDY, "small", plan, tmp_path, said.append, replace(origin, commit="another"))
    assert {path: path.read_text() for path in files} == files
    kept = [line for line in said if line.endswith("cases are measured already, and kept")]
    assert [line.partition(":")[0] for line in kept] == ["throughput", "breakdown", "crossover", "training"]


def test_page_shows_published_beside_ours(stand_in, tmp_path, origin, training_rows, monkeypatch) -> None:
    monkeypatch.setattr("headrace.training.hardware.choose_device", lambda device: "cpu")
    monkeypatch.setattr(acting, "Energy", lambda: SimpleNamespace(why_not="no counters"))
    rates = {"fp32": 100.0, "fp16": 50.0, "int8": 300.0}

    def acted(case: ActingCase) -> dict[str, object]:
        names = ("environment", "inference", "pull", "load", "push", "other")
        loading = ("fetch", "deserialize", "load")
        return dict.fromkeys(acting.COLUMNS) | {
            "task": case.task, "actors": case.actors, "precision": case.precision, "pull_period": case.pull_period,
            "steps_per_second": rates[case.precision], "policies_installed": 3, "parameter_share": 0.04,
            **{f"{name}_s_per_1000": 1.0 for name in names}, **{f"beside_{name}_s_per_1000": 2.0 for name in loading},
            "refresh_ms": 120.0 if case.publications_per_second else None, "joules_per_1000": None,
        }  # fmt: skip

    def crossed(case: CrossoverCase) -> dict[str, object]:
        times = {"fp32_us": 2.0, "fp16_us": 4.0, "int8_us": 1.0, "int8_speedup": case.width / 100, "fp16_speedup": 0.5}
        return {"width": case.width, "batch": case.batch, **times}

    def trained(case: TrainingCase) -> Measured:
        at = 40.0 if case.topology.precision == "fp32" else 10.0
        run, curve = training_rows(case.topology.precision, case.seed, [(1000, at, 950.0), (2000, 50.0, 960.0)])
        held = {"actor_push": 0.6} if case.topology.precision == "int8" else {}
        return Measured(run | {"pull_period": case.topology.pull_period} | held, curve)

    stand_in(ActorQ, throughput=acted, breakdown=acted, crossover=crossed, training=trained,
             pull_periods=lambda case: trained(case).row)  # fmt: skip
    page = run_plan(STUDY, "small", STUDY.plan("small", ActorQOptions()), tmp_path, lambda line: None, origin)
    text = page.read_text()
    row = text[text.index("<th>Cartpole Balance</th>") :].partition("</tr>")[0]
    assert row.startswith("<th>Cartpole Balance</th><td>941.22</td><td>870.91, 279</td><td>3.12</td><td>941</td>")
    assert "<td>40</td><td>–</td><td>10</td><td>4 (coarse)</td><td>–</td><td>25</td><td>1,000, –, 1,000</td>" in row
    assert "<th>cartpole-balance</th><td>960</td><td>–</td><td>960</td><td>2,000</td><td>960</td><td>–</td>" in text
    assert "<b>4</b><span>time to reward, fp32 over int8: cartpole-balance, where it is worst" in text
    assert "<th>published int8</th><td>6.5 s</td><td>0.5 s</td><td>0.15 s</td><td>1.95 s</td>" in text
    assert "width 64: int8 never wins" in text
    assert "width 256: int8 wins at batch 1, 8, 64" in text
    assert "There is no GPU here" in text
    assert "int8: learner-bound, so the actors" in text
    assert "energy is not available" in text
    assert f"3x2048</td><td>{SIZE}</td>" in text
    assert text.count("<svg") == 6  # two curves, two of pull periods, two heat maps
    assert not re.search(r"<(script|link|img)|https?://|url\((?!#)", text)  # needs nothing but itself


def test_a_target_that_was_not_reached_is_not_green() -> None:
    reached = Comparison("time to reward, fp32 / int8", "walker-stand", 2.0, "1.63", ">= 1.63", "holds")
    never = Comparison("time to reward, fp32 / int8", "cheetah-run", None, "2.82", ">= 2.82", "MISSED", "1 of 3")
    assert '<div class="tile good"><b>2</b>' in worst_tiles([reached], TILES)
    short = worst_tiles([reached, never], TILES)
    assert '<div class="tile"><b>2</b>' in short
    assert "where it is worst (required &gt;= 1.63, published 1.63); 1 of 2 not reached" in short
    assert '<div class="tile"><b>–</b>' in worst_tiles([never], TILES)


def test_settings_are_those_of_every_task() -> None:
    cases = [training_case(task, "int8", 0, "cpu") for task in ("CartPole-v1", "MountainCar-v0", "Acrobot-v1")]
    cells = settings_table(cases)
    assert '<td class="text">2048x2048x2048 (CartPole-v1); 128x128 (MountainCar-v0, Acrobot-v1)</td>' in cells
    assert "<td>0.99</td></tr>" in cells  # all have the same discount


def test_limits_are_of_each_task(training_rows) -> None:
    run, _ = training_rows("fp32", 0, [(1, 1.0, 1.0)])
    small = {"hidden": "128x128", "actors": 1, "samples_per_step": 16.0}
    others = [run | small | {"task": task} for task in ("MountainCar-v0", "Acrobot-v1")]
    large = run | {"task": "CartPole-v1", "hidden": "2048x2048x2048", "actors": 4, "samples_per_step": 0.25}
    told = limits([run | {"actor_push": 0.1, "learner_wait": 0.5}, *others, large])
    gym, wide = (next(line for line in told if line.startswith(task)) for task in ("MountainCar-v0", "CartPole-v1:"))
    assert gym == (
        "MountainCar-v0, Acrobot-v1: a policy of 128x128 (published: 3 × 2048), 1 actor (published: 4 actors), "
        "16 samples per environment step."
    )
    assert wide == "CartPole-v1: a policy of 2048x2048x2048, 4 actors, 0.25 samples per environment step."
    assert (
        "cartpole-balance, fp32: actor-bound (actors waited for the learner for 10% of their time, "
        "the learner for them for 50%)."
    ) in told
    assert any("looks like that of CartPole-v0" in line for line in told)
    waiting = limits([run | {"actor_push": 0.1, "learner_wait": 0.2}])
    assert waiting[-1].startswith("cartpole-balance, fp32: neither side is the bottleneck (")


class Slowing:
    """A launcher of one actor that reports whenever it is polled; its n-th report is of a policy n seconds old."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._server = connect_role(endpoint)
        self.reports = 0

    def start(self, role: Role) -> None:
        pass

    def poll(self) -> list[Exit]:
        self.reports += 1
        count = self.reports
        refreshed = {"count": count, "seconds": dict.fromkeys(acting.LOADER_PHASES, 0.0), "latency_seconds": count}
        seconds = dict.fromkeys(ACTOR_PHASES, float(count))
        report = {"role": "actor", "index": 0, "acted": {"steps": count, "seconds": seconds}, "refreshed": refreshed}
        self._server.put(REPORTS, json.dumps(report).encode())
        return []

    def kill(self, role: Role) -> None:
        pass

    def stop(self, roles: Iterable[Role]) -> None:
        self._server.close()


def test_what_was_installed_before_the_window_does_not_count(monkeypatch) -> None:
    monkeypatch.setattr(acting, "_WARM_UP_SECONDS", 0.05)
    launchers = []

    def launch(endpoint: Endpoint, folder: Path) -> Slowing:
        launchers.append(Slowing(endpoint))
        return launchers[0]

    row = measure_acting(replace(ACTING, seconds=0.05), launch)
    last, taken = launchers[0].reports, row["policies_installed"]
    assert 0 < taken < last
    assert row["refresh_ms"] == 1e3 * (last - taken + 1 + last) / 2  # the middle of those in the window


def test_policies_are_installed_while_an_actor_acts() -> None:
    for seconds in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0):  # as long as it takes
        case = replace(ACTING, precision="int8", publications_per_second=20.0, seconds=seconds)
        row = measure_acting(case)
        if row["policies_installed"]:
            break
    assert row["policies_installed"] > 0
    assert row["beside_load_s_per_1000"] > 0
    assert row["refresh_ms"] > 0


def test_small_is_small_and_full_is_all() -> None:
    small = STUDY.plan("small", ActorQOptions())
    assert [str(case) for case in small["training"]] == [
        "cartpole-balance, fp32, seed 0",
        "cartpole-balance, int8, seed 0",
    ]
    assert [case.topology.pull_period for case in small["pull_periods"]] == [1, 100, 10_000]
    full = STUDY.plan("full", ActorQOptions())
    assert len(full["training"]) == 11 * 3 * 3
    assert {case.pull_period for case in full["breakdown"]} == {30, 300}
    chosen = STUDY.plan("full", ActorQOptions(("CartPole-v1", "CartPole-v1"), 1))
    assert [case.task for case in chosen["training"]] == ["CartPole-v1"] * 3
    rounds = [case.precision for case in small["throughput"]]
    assert rounds == ["fp32", "int8"] * 4  # interleaved


def test_without_the_suite_its_cases_are_left_out(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None)
    plan, notes = STUDY.prepare(STUDY.plan("full", ActorQOptions()), {}, tmp_path, lambda line: None)
    assert {case.task for case in plan["training"]} == {"CartPole-v1", "MountainCar-v0", "Acrobot-v1"}
    assert not plan["throughput"]
    assert re.fullmatch(r'\d+ cases of the control suite are left out: pip install "headrace\[dm_control\]"', notes[0])


def test_options_are_the_study_s_own(capsys) -> None:
    assert main(["study", "actorq", "--help"]) == 0
    assert "--tasks TASK" in capsys.readouterr().out
    assert main(["study", "--help"]) == 0
    assert "options: --tasks --seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--tasks cartpole-balance in-network",
            "--tasks is an option of study actorq, not of in-network; leave it out",
        ),
        ("--tasks chess actorq --seeds 2", "tasks has chess, which the study does not know"),
        ("--tasks cartpole-balance", "study needs a name"),
        ("in-network --seeds 3", "--seeds is an option of study actorq, not of in-network; leave it out"),
        ("actorq --tasks cartpole-blance", "tasks has cartpole-blance, which the study does not know; did you mean"),
        (
            "actorq --tasks chess",
            "tasks has chess, which the study does not know; it must be one of cartpole-balance, ",
        ),
        ("actorq --seeds 0", "seeds is 0; it must be above 0"),
        ("actorq --seed 1", "--seed is not an option of headrace study actorq; did you mean --seeds?"),
        ("--scale full", "study needs a name: headrace study NAME, such as in-network"),
    ],
)
def test_mistakes_are_one_line(capsys, words: str, message: str) -> None:
    assert main(["study", *words.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headrace: error: {message}")
    assert error.count("\n") == 1
