"""Workers against the serial run, number for number, and the settings that each of them gets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace import A3C, D4PG, DQN, TD3, AdPsgd, CrossQ, Hogwild, Lock, ParameterServer, Serial
from headrace._native import OptimizerOptions
from headrace.algorithms.config import Algorithm, Engine
from headrace.algorithms.sac import SAC
from headrace.algorithms.writers import table_signature
from headrace.clock import new_event
from headrace.errors import ClosedError, ConfigError
from headrace.gradients.base import ParameterVector
from headrace.gradients.local import LocalVector
from headrace.replay import Connection, ReplayTable, Table
from headrace.roles import remote_worker, worker
from headrace.roles.base import GATE, RoleContext
from headrace.roles.clock import ACTOR_PHASES, PhaseClock
from headrace.roles.gate import Gate
from headrace.roles.remote_worker import WorkerRole, WorkerSettings, build_worker
from headrace.servers import EmbeddedServer
from headrace.topologies.base import RunContext
from headrace.topologies.serial.program import SerialProgram
from headrace.topologies.workers import Workers
from headrace.topologies.workers.program import WorkersProgram, worker_settings
from headrace.types import Batch

from .conftest import PLAIN, SMALL, context_of

CONTINUOUS = {name: value for name, value in SMALL.items() if not name.startswith("epsilon")} | {"critic_hidden": (16,)}
UNTARGETED = {name: value for name, value in CONTINUOUS.items() if not name.startswith("target")}
ALGORITHMS: dict[str, Algorithm] = {
    "plain": PLAIN,
    "all switches": DQN(**{**SMALL, "dueling": True, "target_update_rate": 0.5}),
    "rmsprop": DQN(**{**SMALL, "optimizer": "centered-rmsprop", "optimizer_epsilon": 0.01}),
    "a3c": A3C(hidden=(16,)),
    "d4pg": D4PG(**CONTINUOUS, sigmas=(0.3,)),
    "td3": TD3(**CONTINUOUS, sigmas=(0.3,), policy_update_period=3),
    "sac": SAC(**CONTINUOUS, n_step=3),
    "crossq": CrossQ(**UNTARGETED, policy_update_period=2, renormalization_starts=5),
    "a3c of two networks": A3C(hidden=(16,), trunk="separate", optimizer="adam"),
}
ONE: dict[str, Any] = {"workers": 1, "envs_per_worker": 3, "chunk_steps": 10}
TOPOLOGIES: dict[str, Workers] = {
    "lock": Lock(**ONE),
    "lock, own optimizer state": Lock(**ONE, own_optimizer_state=True),
    "hogwild": Hogwild(**ONE),
    "ad-psgd": AdPsgd(**ONE),
    "parameter-server": ParameterServer(**ONE),
    "three shards": ParameterServer(**ONE, shards=3, staleness="scale"),
    "global replay": ParameterServer(**ONE, replay="global"),
}


def run_worker(server: EmbeddedServer, context: RunContext, config: Workers, turns: int) -> int:
    """Lets the only worker act and learn in this thread, as it would in its process; its updates."""
    program = WorkersProgram(config, context, 0)
    role = program.actors[0]
    assert isinstance(role, WorkerRole)
    settings = role.settings
    table: ReplayTable | None = None
    if settings.table is not None:
        table = Table(table_signature(context.spec), **settings.table)
    elif role.replay is not None:
        table = Connection(server.endpoint.address).table(role.replay.name)

    handles = iter(settings.vectors)

    def open_vector(initial: NDArray[np.float32], options: OptimizerOptions) -> ParameterVector:
        return next(handles).open(initial, options, server.endpoint, 0, settings.acting.seed)

    worker = build_worker(settings, open_vector, table)
    for _ in range(turns):
        worker.step()
    worker.close()
    return worker.learner.steps


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        (name, topology)
        for name, algorithm in ALGORITHMS.items()
        for topology in TOPOLOGIES
        if not (isinstance(algorithm, A3C) and topology == "global replay")  # which it refuses: see below
    ],
)
def test_one_worker_is_bit_identical_to_the_serial_run(server: EmbeddedServer, name: str, topology: str) -> None:
    algorithm, config = ALGORITHMS[name], TOPOLOGIES[topology]
    serial = context_of(server, algorithm, Serial(envs_per_actor=3, chunk_steps=10))
    before = serial.updater.weights()
    program = SerialProgram(Serial(envs_per_actor=3, chunk_steps=10), serial)
    turns = 120
    for _ in range(turns):
        program.step(0.0)
    program.close()
    context = context_of(server, algorithm, config)
    updates = run_worker(server, context, config, turns)
    assert updates == program.learner.steps > 20
    for layer, weights in serial.updater.weights().items():
        assert not np.array_equal(weights, before[layer])
        assert np.array_equal(weights, context.updater.weights()[layer]), layer
    assert context.updater.version == updates


def serial_batches(context: RunContext, monkeypatch: pytest.MonkeyPatch, turns: int) -> list[Batch]:
    """The batches that a serial run learns from."""
    batches: list[Batch] = []
    transfer = context.updater.transfer

    def remember(batch: Batch) -> Any:
        batches.append(Batch(*(np.copy(values) for values in batch)))
        return transfer(batch)

    monkeypatch.setattr(context.updater, "transfer", remember)
    program = SerialProgram(Serial(envs_per_actor=3, chunk_steps=10), context)
    for _ in range(turns):
        program.step(0.0)
    program.close()
    return batches


@pytest.mark.parametrize("prioritized", [True, False])
def test_a_worker_updates_the_priorities_of_prioritized_replay_only(server: EmbeddedServer, prioritized: bool) -> None:
    algorithm, config = DQN(**SMALL, prioritized=prioritized), Serial(envs_per_actor=3, chunk_steps=10)
    program = SerialProgram(config, context_of(server, algorithm, config))
    for _ in range(120):
        program.step(0.0)
    program.close()
    assert program.learner.steps > 20
    assert program.table.stats()["updates"] == (16 * program.learner.steps if prioritized else 0)


def test_a_worker_weights_samples_with_the_importance_exponent(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = DQN(**SMALL, importance_exponent=0.7)
    batch = serial_batches(context_of(server, algorithm, Serial()), monkeypatch, 120)[-1]
    assert batch.probability.min() < 0.9 * batch.probability.max()
    assert batch.weight == pytest.approx((batch.probability.min() / batch.probability) ** 0.7, rel=1e-4)


def test_a_worker_s_transitions_have_the_version_of_the_policy_that_acted(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = serial_batches(context_of(server, DQN(**SMALL), Serial()), monkeypatch, 120)
    assert len(batches) > 20
    for updates, batch in enumerate(batches):
        assert 1 <= batch.policy_version.min() <= batch.policy_version.max() <= updates + 1
    assert batches[0].policy_version.max() == 1
    assert batches[-1].policy_version.max() > 1


def test_the_period_of_td3_s_policy_counts_sums_of_gradients(server: EmbeddedServer) -> None:
    """Of every three of the critics' sums, each of four gradients, one goes with a sum of the policy's."""
    config = ParameterServer(**ONE, push_period=4)
    context = context_of(server, ALGORITHMS["td3"], config)
    sums = run_worker(server, context, config, 120) // 4
    state = context.updater.state()
    assert state["critics.steps"] == sums > 10
    assert state["policy.steps"] == sums // 3


def test_workers_compute_with_the_run_s_engine(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Hogwild(**ONE)
    context = context_of(server, PLAIN, config)._replace(engine="torch")
    engines: list[Engine] = []
    make_updater = DQN.make_updater

    def make(self: DQN, spec: Any, device: Any, seed: int, open_vector: Any, engine: Engine) -> Any:
        engines.append(engine)
        return make_updater(self, spec, device, seed, open_vector, engine)

    monkeypatch.setattr(DQN, "make_updater", make)
    run_worker(server, context, config, 1)
    assert engines == ["torch"]


def test_replay_settings_are_totals_over_all_workers(server: EmbeddedServer) -> None:
    config = Hogwild(workers=3, envs_per_worker=2, chunk_steps=10)
    context = context_of(server, PLAIN, config)
    settings = [worker_settings(config, context, index) for index in range(3)]
    tables = [each.table for each in settings if each.table is not None]
    assert [table["capacity"] for table in tables] == [667] * 3  # a third of 2,000
    assert [table["min_size"] for table in tables] == [34] * 3  # a third of 100
    assert [table["samples_per_insert"] for table in tables] == [4] * 3
    assert [table["seed"] for table in tables] == [5, 6, 7]
    assert [each.acting.first_environment for each in settings] == [0, 2, 4]


def test_workers_together_explore_as_one_with_all_environments(server: EmbeddedServer) -> None:
    """Interleaved, so that each has environments that explore much and little."""
    algorithm = TD3(**CONTINUOUS, sigmas=(0.1, 0.8))
    config = Hogwild(workers=4, envs_per_worker=2, chunk_steps=10)
    context = context_of(server, algorithm, config)
    settings = [worker_settings(config, context, index) for index in range(4)]
    one = algorithm.serial_exploration(8, 0)
    assert [each.acting.exploration for each in settings] == [tuple(one[index::4]) for index in range(4)]
    assert one[0] < one[4]
    for index, each in enumerate(settings):
        worker = build_worker(each, LocalVector, each.open_table())
        worker.step()
        assert worker.exploration == pytest.approx(one[index::4])
        worker.close()


def test_exploration_decays_with_the_steps_of_all_workers(server: EmbeddedServer) -> None:
    """100 steps were made before this worker started, and each of the 4 workers has made 10 since."""
    algorithm = DQN(**SMALL)
    config = Hogwild(workers=4, envs_per_worker=2, chunk_steps=10)
    settings = worker_settings(config, context_of(server, algorithm, config), 1)
    worker = build_worker(settings, LocalVector, settings.open_table(), first_step=100)
    for _ in range(6):
        worker.step()
    worker.close()
    assert worker.exploration == pytest.approx([1 - 0.95 * 140 / 300] * 2)


def test_a_restarted_worker_has_other_seeds(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Hogwild(workers=2, envs_per_worker=2, chunk_steps=10)
    settings = worker_settings(config, context_of(server, DQN(**SMALL), config), 1)
    built: list[WorkerSettings] = []

    def build(settings: WorkerSettings, *arguments: Any) -> None:
        built.append(settings)
        raise ClosedError("built")

    monkeypatch.setattr(remote_worker, "build_worker", build)
    server.publish(GATE, Gate("open", 0).to_json())
    for generation in (0, 1):
        with RoleContext(server.endpoint, new_event()) as context:
            WorkerRole(1, settings, generation=generation).run(context)
    first, second = built
    assert first == settings
    assert second.acting.seed == first.acting.seed + 1_000_003
    assert first.table is not None
    assert second.table == {**first.table, "seed": first.table["seed"] + 1_000_003}
    assert second.update_seed != first.update_seed


def test_a_worker_that_starts_late_begins_with_the_steps_of_all_workers(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would explore as at the start of training."""
    config = Hogwild(workers=2, envs_per_worker=2, chunk_steps=10)
    settings = worker_settings(config, context_of(server, DQN(**SMALL), config), 1)
    first_steps: list[int] = []

    def build(settings: Any, open_vector: Any, table: Any, first_step: int = 0, clock: Any = None) -> None:
        first_steps.append(first_step)
        raise ClosedError("built")

    monkeypatch.setattr(remote_worker, "build_worker", build)
    server.publish(GATE, Gate("open", 500).to_json())
    with RoleContext(server.endpoint, new_event()) as context:
        WorkerRole(1, settings).run(context)
    assert first_steps == [500]


def test_only_environments_can_hang_while_a_worker_is_built(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing torch and opening the shared vectors may take longer than an environment is allowed."""
    config = Hogwild(**ONE)
    settings = worker_settings(config, context_of(server, PLAIN, config), 0)
    clock = PhaseClock(ACTOR_PHASES)
    clock.enter("environment")
    phases: list[str] = []
    make_updater, make_actor = DQN.make_updater, worker.Actor

    def noting(make: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: Any, **options: Any) -> Any:
            phases.append(clock.phase)
            return make(*arguments, **options)

        return note

    monkeypatch.setattr(DQN, "make_updater", noting(make_updater))
    monkeypatch.setattr(worker, "Actor", noting(make_actor))
    build_worker(settings, LocalVector, settings.open_table(), clock=clock).close()
    assert phases == ["other", "environment"]


def test_workers_make_as_many_updates_as_one_with_all_environments(server: EmbeddedServer) -> None:
    """But for those that each has not begun when it begins to learn."""
    algorithm, total, made = DQN(**SMALL), 4_000, {}
    for workers in (1, 4):
        config = Hogwild(workers=workers, envs_per_worker=8 // workers, chunk_steps=10)
        context = context_of(server, algorithm, config)
        updates = 0
        for index in range(workers):
            settings = worker_settings(config, context, index)
            worker = build_worker(settings, LocalVector, settings.open_table())
            while worker.steps < total // workers:
                worker.step()
            updates += worker.learner.steps
            worker.close()
        made[workers] = updates
    assert made[4] == pytest.approx(made[1], abs=10)


def test_a_worker_starts_learning_with_at_least_one_batch(server: EmbeddedServer) -> None:
    config = Hogwild(workers=10, chunk_steps=10)
    table = worker_settings(config, context_of(server, PLAIN, config), 0).table
    assert table is not None
    assert table["min_size"] == 16  # a tenth of 100 is less


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "replay_capacity is 2000; it must be at least 2640: the 16 transitions .* for each of 40 workers"),
        (
            {"replay_capacity": 5_000, "replay_bytes": 40},
            r"replay_bytes is 40; it must be at least \d+, .* of 40 workers",
        ),
    ],
)
def test_a_share_that_is_too_small_is_reported_as_a_total(
    server: EmbeddedServer, settings: dict[str, Any], said: str
) -> None:
    config = Hogwild(workers=40)
    with pytest.raises(ConfigError, match=said):
        WorkersProgram(config, context_of(server, DQN(**{**SMALL, **settings}), config), 0)


def test_stochastic_policies_are_not_near_greedy(server: EmbeddedServer) -> None:
    config = Hogwild(workers=2, envs_per_worker=3)
    acting = worker_settings(config, context_of(server, A3C(hidden=(16,)), config), 0).acting
    assert acting.exploration == (1.0, 1.0, 1.0)


def test_more_shards_than_parameters_are_refused(server: EmbeddedServer) -> None:
    with pytest.raises(ConfigError, match="shards"):
        context_of(server, DQN(hidden=(1,)), ParameterServer(shards=1000))
