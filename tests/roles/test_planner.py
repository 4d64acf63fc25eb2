"""A planner: its pace, the gate on its model's error, and its start states."""

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from math import inf, nan
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace import DynaQ
from headrace._native import Server
from headrace.clock import new_event
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.replay import BatchBuffer, ChunkWriter, ReplayTable, Signature, Table
from headrace.roles import heartbeat
from headrace.roles.base import RoleContext
from headrace.roles.handles import POLICY, SIMULATED, TRANSITIONS
from headrace.roles.messages import REPORTS
from headrace.roles.planner import Planner, PlannerRole, PlannerSettings
from headrace.servers import Endpoint, open_server
from headrace.servers.standalone import StandaloneServer
from headrace.types import Array, Batch, EnvironmentSpec

from ..waiting import wait_for

SPEC = EnvironmentSpec((1,), "float32", 2)
SIGNATURE = Signature((1,), "float32")
SMALL = DynaQ(
    ensemble_size=2,
    model_hidden=(16,),
    model_batch_size=16,
    model_samples_per_step=4,
    rollout_steps=1,
    simulated_per_step=1.0,
    model_error_limit=1e9,
    disagreement_limit=100.0,
    discount=0.5,
    n_step=1,
)


def rightwards(observation: Array) -> NDArray[np.float32]:
    """Q(s, 0) = s, Q(s, 1) = s + 1."""
    return np.hstack((observation, observation + 1))


def fill(table: ReplayTable, episodes: int) -> None:
    """Episodes of 10 steps of reward 1, the state counting them."""
    for _ in range(episodes):
        writer = ChunkWriter(SIGNATURE, n_step=1, discount=1.0)
        writer.start(np.zeros(1, np.float32))
        for t in range(10):
            writer.append(1, 1.0, np.full(1, t + 1, np.float32), t == 9, False)
        for chunk in writer.take():
            table.insert(chunk)


class Bench:
    """A planner between two tables."""

    def __init__(self, episodes: int = 100, sampler: str = "prioritized", **settings: Any) -> None:
        self.config = dataclasses.replace(SMALL, **settings)
        self.transitions = Table(SIGNATURE, capacity=5000, sampler=sampler, priority_exponent=1.0, seed=0)
        self.simulated = Table(SIGNATURE, capacity=5000, sampler="uniform", seed=0)
        fill(self.transitions, episodes)
        self.now: int | None = None
        self.pushes = 0
        self.planner = Planner(
            PlannerSettings(SPEC, self.config, 0),
            self.transitions,
            self.insert,
            rightwards,
        )

    def insert(self, *chunks: bytes) -> None:
        self.pushes += 1
        self.simulated.insert(*chunks)

    def run(self, steps: int) -> int:
        """Advances by this many environment steps, 8 at a time after the first call; returns the number of turns."""
        turns = 0
        for now in (steps,) if self.now is None else range(self.now + 8, steps + 1, 8):
            while self.planner.advance(now):
                turns += 1
        self.now = steps
        return turns


def test_training_and_simulation_are_proportional_to_environment_steps() -> None:
    bench = Bench()
    assert bench.run(0) == 0
    bench.run(1000)
    assert bench.planner.learner.version == 1000 * 4 // 16
    assert bench.planner.simulated == 896  # rounds of 128
    assert bench.pushes == 7  # each round at once
    assert bench.simulated.stats()["inserts"] == 896
    assert bench.run(1000) == 0


def test_it_goes_on_when_a_restarted_server_counts_from_less() -> None:
    bench = Bench()
    bench.run(0)
    bench.run(1000)
    trained, simulated = bench.planner.learner.version, bench.planner.simulated
    bench.now = -8  # the first step there is 0
    bench.run(800)
    assert bench.planner.learner.version == trained + 800 * 4 // 16
    assert simulated + 800 - 128 < bench.planner.simulated <= simulated + 800 + 128


def test_planners_share_the_simulations_but_not_the_training() -> None:
    bench = Bench(planners=2)
    bench.run(0)
    bench.run(1024)
    assert bench.planner.learner.version == 1024 * 4 // 16
    assert bench.planner.simulated == 512


def test_a_late_planner_catches_up_on_training_but_not_on_simulation() -> None:
    bench = Bench(model_samples_per_step=0.32)
    bench.run(50_000)
    assert bench.planner.learner.version == 10_000 * 0.32 // 16
    assert bench.planner.simulated == 0
    bench.run(50_256)
    assert bench.planner.simulated == 256


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_each_member_of_the_model_learns_from_transitions_of_all_ages(
    sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table samples in the order of its contents: rows that follow each other in a batch are of about one age."""
    bench = Bench(sampler=sampler)  # 1,000 transitions with keys that count them
    model, seen = bench.planner.learner, []
    learn = model.learn

    def watched(batch: Batch) -> float:
        seen.append(model._by_member(batch.key))
        return learn(batch)

    monkeypatch.setattr(model, "learn", watched)
    bench.run(1_000)
    bench.run(1_024)
    keys = np.concatenate(seen[:5], 1)  # [N, B] of five batches
    assert (keys.min(1) < 100).all()
    assert (keys.max(1) >= 900).all()


def test_training_batches_are_weighted_for_importance_and_start_states_are_not() -> None:
    bench = Bench()
    transitions = bench.planner._transitions = Mock(wraps=bench.transitions)
    bench.run(0)
    bench.run(128)
    sampled = [(len(call.args[0].arrays.key), call.args[1]) for call in transitions.sample_into.call_args_list]
    assert set(sampled) == {(2 * 16, 1.0), (128, 0.0)}


def test_too_few_transitions_do_nothing() -> None:
    bench = Bench(episodes=0)
    bench.run(0)
    assert bench.run(1000) == 0
    assert (bench.planner.learner.version, bench.planner.simulated, bench.planner.gated) == (0, 0, 0)


def test_a_model_with_a_high_error_is_gated_and_counted() -> None:
    bench = Bench(model_error_limit=1e-9)
    bench.run(0)
    bench.run(600)
    assert (bench.planner.simulated, bench.planner.gated) == (0, 512)
    assert bench.simulated.stats()["inserts"] == 0
    assert bench.planner.figures()["gated"] == 512


def test_a_model_without_a_measured_error_is_gated() -> None:
    bench = Bench(model_samples_per_step=1e-6)
    bench.run(0)
    bench.run(600)
    assert bench.planner.learner.error == inf
    assert bench.planner.figures()["model_error"] is None
    assert (bench.planner.simulated, bench.planner.gated) == (0, 512)


def test_a_nan_error_is_gated() -> None:
    bench = Bench(model_samples_per_step=1e-6)
    bench.planner.learner.error = nan
    bench.run(0)
    bench.run(600)
    assert (bench.planner.simulated, bench.planner.gated) == (0, 512)


def test_disagreement_drops_whole_simulations() -> None:
    bench = Bench(disagreement_limit=1e-9)
    bench.run(0)
    bench.run(600)
    assert (bench.planner.simulated, bench.planner.dropped) == (0, 512)


def test_simulated_transitions_have_the_models_version() -> None:
    bench = Bench()
    bench.run(0)
    bench.run(128)
    buffer = BatchBuffer(SIGNATURE, 64)
    assert bench.simulated.sample_into(buffer, 0.0, 0.0)
    assert bench.planner.learner.version == 32
    assert set(buffer.arrays.policy_version.tolist()) == {
        30
    }  # two of the 32 were due together with the simulations, which came first
    bench.run(256)
    assert bench.simulated.sample_into(buffer, 0.0, 0.0)
    assert set(buffer.arrays.policy_version.tolist()) <= {30, 62}


def test_a_planner_that_falls_behind_alternates_training_and_simulation() -> None:
    bench = Bench()
    bench.run(0)
    for _ in range(20):
        assert bench.planner.advance(100_000)
    assert (bench.planner.learner.version, bench.planner.gated) == (10, 10 * 128)


def test_search_control_prefers_where_the_td_error_is_large() -> None:
    bench = Bench(episodes=30, model_samples_per_step=0.032)
    bench.run(0)
    bench.run(60 * 128)  # every transition has had its turn
    # |1 + 0.5 (s + 2) - (s + 1)| = |1 - s / 2| of steps before the last; 9 of the last, where s is 9
    buffer = BatchBuffer(SIGNATURE, 20_000)
    assert bench.transitions.sample_into(buffer, 0.0, 0.0)
    found = np.bincount(buffer.arrays.observation[:, 0].astype(int), minlength=10) / 20_000
    error = np.abs(1 - np.arange(10) / 2)
    error[9] = 9
    np.testing.assert_allclose(found, error / error.sum(), atol=0.02)


def test_uniform_search_control_sets_no_priorities() -> None:
    bench = Bench(sampler="uniform", search_control="uniform")
    bench.run(0)
    bench.run(600)
    assert bench.planner.simulated == 512
    assert bench.transitions.stats()["updates"] == 0


def test_the_same_seed_simulates_the_same() -> None:
    batches = []
    for _ in range(2):
        bench = Bench()
        bench.run(0)
        bench.run(1000)
        buffer = BatchBuffer(SIGNATURE, 64)
        assert bench.simulated.sample_into(buffer, 0.0, 0.0)
        batches.append(buffer.arrays)
    for first, second in zip(*batches, strict=True):
        np.testing.assert_array_equal(first, second)


@contextlib.contextmanager
def running_role() -> Iterator[tuple[StandaloneServer, ReplayTable, ReplayTable]]:
    """A planner's role in a thread, and its server with the tables of transitions and of simulated ones."""
    native = Server()
    endpoint = Endpoint(native.listen("unix:@"), "run")
    server = open_server(endpoint)
    assert isinstance(server, StandaloneServer)
    server.begin(fresh=True)
    tables = [server.add_table(each.name, SIGNATURE, fresh=True, capacity=5000) for each in (TRANSITIONS, SIMULATED)]
    fill(tables[0], episodes=100)
    architecture = Architecture.of(SPEC, "mlp", ())
    weights = architecture.layout.views(np.zeros(architecture.layout.size, np.float32))
    server.publish(POLICY.name, PolicyGraph(architecture).serialize(weights), 1)
    role = PlannerRole(0, PlannerSettings(SPEC, SMALL, 0), POLICY, TRANSITIONS, SIMULATED)
    stop = new_event()

    def run() -> None:
        with RoleContext(endpoint, stop) as context:
            role.run(context)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield server, *tables
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    server.close()


def test_a_planner_reports_while_its_simulations_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are during an evaluation."""
    monkeypatch.setattr(heartbeat, "_PERIOD_SECONDS", 0.01)
    reports: list[dict[str, Any]] = []

    def simulated(report: dict[str, Any]) -> int:
        return report["planned"]["simulated"] if "planned" in report else 0

    with running_role() as (server, transitions, simulations):
        simulations.set_paused(True)

        def held() -> bool:
            fill(transitions, episodes=20)  # so that simulations are due
            reports.extend(json.loads(message) for message in server.drain(REPORTS))
            last = [simulated(report) for report in reports[-20:]]
            return len(last) == 20 and len(set(last)) == 1 and last[0] > 0

        def released() -> bool:
            held()
            return simulated(reports[-1]) > simulated(reports[-21])

        wait_for(held)
        simulations.set_paused(False)
        wait_for(released)


def test_a_planner_that_is_always_busy_sees_new_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the steps that it last saw, no simulation is due any more: it would train only."""
    seen: list[int] = []

    def advance(_planner: Planner, steps: int) -> bool:
        seen.append(steps)
        time.sleep(0.001)
        return True

    monkeypatch.setattr(Planner, "advance", advance)
    with running_role() as (_, transitions, _):
        wait_for(lambda: bool(seen))
        fill(transitions, episodes=20)
        wait_for(lambda: seen[-1] > seen[0])


def test_a_planner_does_not_import_torch() -> None:
    code = "import sys, headrace.roles.planner; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
