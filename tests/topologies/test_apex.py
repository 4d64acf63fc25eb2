"""The program of apex: its actors' settings, and what its learner asks of the table."""

from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

from headrace import DQN, Apex
from headrace.environments import describe
from headrace.replay import Table
from headrace.roles.actor import ActorSettings
from headrace.roles.remote_actor import ActorRole
from headrace.servers import EmbeddedServer
from headrace.topologies.apex.program import ApexProgram
from headrace.topologies.base import RunContext

CORRIDOR = "headrace.environments.toy:Corridor"

MakeProgram = Callable[[DQN, Apex], ApexProgram]


@pytest.fixture
def make_program() -> Iterator[MakeProgram]:
    """Makes programs that are closed at the end of the test."""
    programs, server = [], EmbeddedServer()

    def make(algorithm: DQN, config: Apex) -> ApexProgram:
        spec = describe(CORRIDOR)
        updater = algorithm.make_updater(spec, "cpu", 0)
        programs.append(ApexProgram(config, RunContext(CORRIDOR, spec, 0, algorithm, updater, server), 0, pinned=False))
        return programs[-1]

    yield make
    for program in programs:
        program.close()
    server.close()


def actor_settings(program: ApexProgram) -> list[ActorSettings]:
    return [role.settings for role in program.actors if isinstance(role, ActorRole)]


@pytest.mark.parametrize(("prioritized", "updates"), [(True, 32), (False, 0)])
def test_the_learner_updates_priorities_only_if_sampling_is_prioritized(
    make_program: MakeProgram, fill: Callable[[Table], None], prioritized: bool, updates: int
) -> None:
    algorithm = DQN(hidden=(16,), batch_size=32, learning_starts=100, prioritized=prioritized)
    program = make_program(algorithm, Apex(actors=1))
    assert isinstance(program.table, Table)
    fill(program.table)
    program.step(30.0)
    assert program.learner.steps == 1
    assert program.table.stats()["updates"] == updates


def test_batches_are_prepared_with_the_algorithm_s_importance_exponent(
    make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = Mock()
    monkeypatch.setattr(Table, "batches_ahead", prepared)
    make_program(DQN(hidden=(16,), batch_size=32, importance_exponent=0.7), Apex(actors=1, batches_ahead=4))
    assert prepared.call_args.args[:3] == (32, 0.7, 4)


def test_each_actor_has_exploring_and_greedy_environments(make_program: MakeProgram) -> None:
    """Epsilon of environment i of 6 is 0.4 ** (1 + 7 * i / 5); every second one belongs to the same actor."""
    first, second = actor_settings(make_program(DQN(), Apex(actors=2, envs_per_actor=3)))
    assert (first.first_environment, second.first_environment) == (0, 3)
    assert first.exploration == pytest.approx((0.4, 0.030749, 0.0023637), rel=1e-4)
    assert second.exploration == pytest.approx((0.110903, 0.0085253, 0.00065536), rel=1e-4)


@pytest.mark.parametrize("prioritized", [True, False])
def test_actors_send_priorities_only_if_sampling_is_prioritized(make_program: MakeProgram, prioritized: bool) -> None:
    actors = actor_settings(make_program(DQN(prioritized=prioritized), Apex(actors=2)))
    assert [each.values for each in actors] == [prioritized] * 2
