"""Planning in a topology: the replay ratio, snapshots, and no effect if it is off."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from headrace import DQN, Apex, DynaQ, Serial
from headrace.environments import describe
from headrace.errors import CheckpointError, ConfigError, StorageError
from headrace.replay import Table
from headrace.roles.handles import TRANSITIONS
from headrace.roles.planner import PlannerRole
from headrace.roles.remote_actor import ActorRole
from headrace.servers import EmbeddedServer
from headrace.topologies import dyna as module
from headrace.topologies.base import RunContext
from headrace.topologies.dyna import DynaTables, dyna_tables, mixed_batches
from headrace.topologies.serial.program import SerialProgram
from headrace.types import Array

CORRIDOR = "headrace.environments.toy:Corridor"
SETTINGS = {
    "hidden": (16,),
    "batch_size": 32,
    "replay_capacity": 5_000,
    "learning_starts": 100,
    "samples_per_step": 4,
    "target_update_period": 20,
}
SMALL = DynaQ(
    **SETTINGS,  # type: ignore[arg-type]
    real_fraction=0.25,
    ensemble_size=2,
    model_hidden=(32,),
    model_batch_size=32,
    model_samples_per_step=8,
    simulated_capacity=500,
    rollout_steps=2,
    model_error_limit=5.0,
    disagreement_limit=10.0,
)


def context(algorithm: DQN, environment: str = CORRIDOR) -> RunContext:
    spec = describe(environment)
    updater = algorithm.make_updater(spec, "cpu", 0)
    return RunContext(environment, spec, 0, algorithm, updater, EmbeddedServer())


def serial(algorithm: DQN, turns: int) -> SerialProgram:
    program = SerialProgram(Serial(envs_per_actor=2, chunk_steps=10), context(algorithm))
    for _ in range(turns):
        program.step(0.0)
    return program


def parameters(program: SerialProgram) -> dict[str, Array]:
    return program._worker.learner._updater.state()  # type: ignore[attr-defined,no-any-return]


def equal(first: SerialProgram, second: SerialProgram) -> bool:
    mine, theirs = parameters(first), parameters(second)
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_without_planning_it_is_dqn_bit_for_bit() -> None:
    dqn = serial(DQN(**SETTINGS), 300)  # type: ignore[arg-type]
    assert dqn.learner.steps > 30
    assert equal(serial(dataclasses.replace(SMALL, planning=False), 300), dqn)
    assert equal(serial(dataclasses.replace(SMALL, real_fraction=1.0), 300), dqn)
    assert not equal(serial(SMALL, 300), dqn)


def test_planning_in_one_thread_is_deterministic() -> None:
    first = serial(SMALL, 400)
    assert first.table.stats()["simulated_inserts"] > 0
    assert equal(first, serial(SMALL, 400))


@pytest.mark.parametrize("error_limit", [5.0, 1e-9])
def test_planning_does_not_change_the_replay_ratio(error_limit: float) -> None:
    program = serial(dataclasses.replace(SMALL, model_error_limit=error_limit), 1000)
    without = serial(dataclasses.replace(SMALL, planning=False), 1000)
    unfinished = 2 * 10 * 4 / 32  # updates of the chunks that two environments have not finished, in either run
    assert program.learner.steps == pytest.approx(without.learner.steps, abs=unfinished)
    assert program.learner.steps > 200
    stats = program.table.stats()
    for table in (program.table, without.table):
        assert table.stats()["samples_per_insert"] == pytest.approx(4, rel=0.05)
    mixed = stats["simulated_samples"] / 24  # batches with 8 real transitions in place of 32
    assert mixed == 0 if error_limit < 1 else mixed > 0.8 * program.learner.steps


def test_figures_include_the_planner() -> None:
    program = serial(SMALL, 400)
    figures = program.take_figures()
    assert figures["acted"]["steps"] > 0
    assert figures["planned"]["simulated"] == program.table.stats()["simulated_inserts"]
    assert figures["planned"]["model_version"] > 0


def test_seconds_are_reported_once() -> None:
    program = serial(DQN(**SETTINGS), 10)  # type: ignore[arg-type]
    first, second = program.take_figures(), program.take_figures()
    assert sum(first["acted"]["seconds"].values()) > 0
    assert set(second["acted"]["seconds"].values()) == {0.0}


def test_only_the_real_experience_has_a_limiter_and_search_control_is_that_of_the_transitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = Mock(wraps=Table)
    monkeypatch.setattr(module, "Table", make)
    config = dataclasses.replace(SMALL, search_control="uniform")
    dyna_tables(context(config), config, environments=2, chunk_steps=10)
    options = [call.kwargs for call in make.call_args_list]
    assert [each["sampler"] for each in options] == ["prioritized", "uniform", "uniform"]
    assert [each["samples_per_insert"] for each in options] == [4, 0, 0]
    assert [each["limiter_tolerance"] > 0 for each in options] == [True, False, False]
    assert [each["capacity"] for each in options][::2] == [config.replay_capacity, config.simulated_capacity]


def test_the_planners_transitions_have_a_discount_of_1_or_0() -> None:
    table = serial(dataclasses.replace(SMALL, discount=0.5), 200).table
    assert isinstance(table, DynaTables)
    batch = table.transitions.sample(200)
    assert batch is not None
    assert set(batch.discount.tolist()) == {0.0, 1.0}


def test_mixed_batches_have_the_algorithm_s_importance_exponent(fill: Callable[[Table], None]) -> None:
    """With an exponent of 1, weights are inversely proportional to probabilities."""
    config = dataclasses.replace(SMALL, importance_exponent=1.0)
    tables = dyna_tables(context(config), config, environments=2, chunk_steps=10)
    fill(tables.real)
    tables.real.update_priorities(np.arange(100, dtype=np.uint64), np.arange(1.0, 101.0))
    batch = mixed_batches(tables, config).next(0.0)
    assert batch is not None
    assert batch.probability.max() > 2 * batch.probability.min()
    np.testing.assert_allclose(batch.weight, batch.probability.min() / batch.probability, rtol=1e-5)


def test_a_snapshot_has_all_three_tables(tmp_path: Path) -> None:
    table = serial(SMALL, 400).table
    table.save(str(tmp_path / "replay"))
    assert [path.name for path in tmp_path.iterdir()] == ["replay"]
    empty = SerialProgram(Serial(envs_per_actor=2, chunk_steps=10), context(SMALL)).table
    empty.restore(str(tmp_path / "replay"))
    assert isinstance(table, DynaTables)
    assert isinstance(empty, DynaTables)
    for mine, theirs in zip(table.all, empty.all, strict=True):
        assert mine.stats()["size"] == theirs.stats()["size"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["replay"]


@pytest.mark.parametrize("kept", [slice(-100), slice(20), slice(4), slice(0)])
def test_a_truncated_snapshot_is_refused(tmp_path: Path, kept: slice) -> None:
    path = tmp_path / "replay"
    serial(SMALL, 400).table.save(str(path))
    path.write_bytes(path.read_bytes()[kept])
    empty = SerialProgram(Serial(envs_per_actor=2, chunk_steps=10), context(SMALL)).table
    with pytest.raises(CheckpointError, match="truncated"):
        empty.restore(str(path))


def test_a_snapshot_whose_parts_have_no_room_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "replay"
    serial(SMALL, 400).table.save(str(path))
    (tmp_path / "replay.1").mkdir()
    empty = SerialProgram(Serial(envs_per_actor=2, chunk_steps=10), context(SMALL)).table
    with pytest.raises(StorageError, match=r"can't read replay of the checkpoint .*replay by its parts"):
        empty.restore(str(path))


def test_a_serial_run_has_one_planner_for_all_simulations() -> None:
    one, many = serial(SMALL, 400), serial(dataclasses.replace(SMALL, planners=4), 400)
    assert one.table.stats()["simulated_inserts"] == many.table.stats()["simulated_inserts"] > 0
    assert equal(one, many)


def test_apex_has_one_actor_and_its_planners() -> None:
    program = Apex(chunk_steps=10).make_program(context(dataclasses.replace(SMALL, planners=2)), generation=5)
    try:
        [actor] = program.actors
        assert isinstance(actor, ActorRole)
        assert actor.transitions == TRANSITIONS
        assert [(role.name, role.generation) for role in program.services] == [("planner 0", 5), ("planner 1", 5)]
        planners = [role for role in program.services if isinstance(role, PlannerRole)]
        assert [(each.index, each.settings.algorithm.planners) for each in planners] == [(0, 2), (1, 2)]
    finally:
        program.close()


def test_planners_need_a_server_to_sample_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmbeddedServer, "serves_samples", False)
    with pytest.raises(ConfigError, match=r"algorithm is dyna-q and the server is a Redis, which cannot sample"):
        Apex().make_program(context(SMALL))


def test_apex_without_planning_is_that_of_dqn() -> None:
    program = Apex(actors=2).make_program(context(dataclasses.replace(SMALL, planning=False)))
    try:
        assert [role.kind for role in (*program.actors, *program.services)] == ["actor", "actor"]
        [actor, _] = program.actors
        assert isinstance(actor, ActorRole)
        assert actor.transitions is None
    finally:
        program.close()


@pytest.mark.parametrize("topology", [Serial(), Apex(actors=1)])
def test_frames_have_no_world_model(topology: Serial | Apex) -> None:
    with pytest.raises(ConfigError, match="algorithm is dyna-q, and an observation is uint8"):
        topology.make_program(context(SMALL, "headrace.environments.toy:Frames"))
