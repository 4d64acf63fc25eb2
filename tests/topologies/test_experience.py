"""The table that a topology adds, and what it refuses."""

from typing import Any

import pytest

from headrace import DQN, R2D2
from headrace.algorithms.config import OffPolicy
from headrace.errors import ConfigError
from headrace.servers import EmbeddedServer
from headrace.topologies.base import RunContext
from headrace.topologies.experience import add_table, table_options
from headrace.types import EnvironmentSpec

SPEC = EnvironmentSpec((84, 84), "uint8", 4, stack=4)


def options_of(algorithm: OffPolicy) -> dict[str, Any]:
    """Options for eight environments with chunks of one step."""
    spec = EnvironmentSpec((2,), "float32", 4)
    return table_options(algorithm, spec, EmbeddedServer(), environments=8, chunk_steps=1)


def add(**settings: Any) -> dict[str, float]:
    algorithm = DQN(**{"batch_size": 32, "learning_starts": 100, "replay_capacity": 1_000, **settings})
    updater = algorithm.make_updater(SPEC, "cpu", 0)
    context = RunContext("ALE/Breakout-v5", SPEC, 0, algorithm, updater, EmbeddedServer())
    return add_table(context, environments=2, chunk_steps=50).stats()


def test_memory_follows_from_the_capacity() -> None:
    # 56 frames of 7,056 bytes for 50 transitions, a quarter more for chunks that are cut short
    per_transition = add()["capacity_bytes"] / 1_000
    assert 7_056 * 56 / 50 * 1.25 < per_transition < 7_056 * 56 / 50 * 1.25 * 1.2


def test_a_budget_that_learning_could_never_start_with_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replay_bytes is 100000; it must be at least \d+, for the 100 transitions"):
        add(replay_bytes=100_000)


def test_a_capacity_that_learning_could_never_start_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="replay_capacity is 120; it must be at least 150"):
        add(replay_capacity=120)


@pytest.mark.parametrize(
    ("algorithm", "inserted"),
    [(R2D2(learned_steps=10, n_step=20, samples_per_step=64), 5), (DQN(n_step=20, samples_per_step=64), 20)],
)
def test_the_limiter_lets_episodes_end_at_the_same_time(algorithm: OffPolicy, inserted: int) -> None:
    """Where one thread acts and learns, inserting must not wait, as no other thread samples."""
    options = options_of(algorithm)
    assert options["limiter_tolerance"] >= 2 * options["samples_per_insert"] * inserted * 8


def test_the_limiter_tolerates_a_batch_and_two_bursts() -> None:
    options = options_of(DQN(n_step=20, samples_per_step=64, batch_size=256))
    assert options["limiter_tolerance"] == 256 + 2 * 64 * 20 * 8


def test_the_table_has_the_algorithm_s_priority_exponent() -> None:
    assert options_of(DQN(priority_exponent=0.9))["priority_exponent"] == 0.9
