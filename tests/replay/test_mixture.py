"""Batches of two tables: exact shares, whole ones while there is nothing simulated, real keys only."""

import numpy as np
import pytest

from headrace.replay import ChunkWriter, MixedBatches, Signature, Table

SIGNATURE = Signature((1,), "float32")


def chunk(values: list[float], version: int) -> bytes:
    writer = ChunkWriter(SIGNATURE, n_step=1, chunk_steps=100)
    writer.set_policy_version(version)
    writer.start(np.zeros(1, np.float32))
    for index, value in enumerate(values):
        writer.append(0, value, np.ones(1, np.float32), False, index == len(values) - 1)
    [data] = writer.take()
    return data


def make(real_rows: int, real: int = 50, simulated_min: int = 8) -> tuple[Table, Table, MixedBatches]:
    first = Table(SIGNATURE, capacity=100, priority_exponent=1.0, seed=0)
    second = Table(SIGNATURE, capacity=100, sampler="uniform", min_size=simulated_min, seed=0)
    if real:
        first.insert(chunk([1.0] * real, version=3))
    return first, second, MixedBatches(first, second, 16, real_rows, 1.0)


@pytest.mark.parametrize("real_rows", [1, 4, 12, 15])
def test_shares_are_exact_and_whole_batches_are_real_until_enough_is_simulated(real_rows: int) -> None:
    _, simulated, mixed = make(real_rows)
    batch = mixed.next(0.0)
    assert batch is not None
    assert batch.reward.tolist() == [1] * 16
    assert len(batch.key) == 16
    simulated.insert(chunk([-1.0] * 7, version=9))  # one too few
    batch = mixed.next(0.0)
    assert batch is not None
    assert batch.reward.tolist() == [1] * 16
    simulated.insert(chunk([-1.0], version=9))
    for _ in range(20):
        batch = mixed.next(0.0)
        assert batch is not None
        assert batch.reward.tolist() == [1] * real_rows + [-1] * (16 - real_rows)
    assert mixed.simulated == 20 * (16 - real_rows)


def test_keys_and_versions_are_those_of_the_real_rows_whose_priorities_are_set() -> None:
    real, simulated, mixed = make(4)
    simulated.insert(chunk([-1.0] * 20, version=9))
    batch = mixed.next(0.0)
    assert batch is not None
    assert batch.policy_version.tolist() == [3] * 4
    priority = np.zeros(16, np.float32)
    priority[:4] = 1000
    assert mixed.update_priorities(batch.key, priority) == 4
    assert (real.stats()["updates"], simulated.stats()["updates"]) == (4, 0)
    assert real.stats()["max_priority"] == 1000


def test_a_simulated_transition_has_the_mean_real_weight() -> None:
    real, simulated, mixed = make(8)
    simulated.insert(chunk([-1.0] * 20, version=9))
    real.update_priorities(np.arange(50, dtype=np.uint64), np.linspace(0.1, 5, 50, dtype=np.float32))
    batch = mixed.next(0.0)
    assert batch is not None
    assert batch.weight[:8].min() < batch.weight[:8].max() <= 1
    np.testing.assert_allclose(batch.weight[8:], batch.weight[:8].mean())


def test_without_real_transitions_there_is_no_batch_and_nothing_simulated_is_lost() -> None:
    real, simulated, mixed = make(4, real=0)
    simulated.insert(chunk([-1.0] * 20, version=9))
    assert mixed.next(0.0) is None
    assert simulated.stats()["samples"] == 0
    real.insert(chunk([1.0] * 10, version=3))
    assert mixed.next(0.0) is not None
    assert simulated.stats()["samples"] == 12


@pytest.mark.parametrize("simulating", [False, True])
def test_the_limiter_allows_the_same_number_of_mixed_batches(simulating: bool) -> None:
    real = Table(SIGNATURE, capacity=100, samples_per_insert=8.0, limiter_tolerance=16.0, min_size=10, seed=0)
    simulated = Table(SIGNATURE, capacity=100, sampler="uniform", min_size=8, seed=0)
    mixed = MixedBatches(real, simulated, 16, 4, 1.0)
    if simulating:
        simulated.insert(chunk([-1.0] * 20, version=9))
    batches = 0
    for _ in range(3):
        real.insert(chunk([1.0] * 10, version=3))
        while mixed.next(0.0):
            batches += 1
    assert mixed.simulated == (12 * batches if simulating else 0)
    assert batches == (30 - 10) * 8 / 16 + 1  # since the table reached 10; and the tolerance of one batch
    assert real.stats()["samples"] == 16 * batches


def test_real_rows_are_drawn_like_those_of_a_whole_batch() -> None:
    """Of 0 to 49, drawn uniformly: each as often, and one of each quarter in each batch."""
    real = Table(SIGNATURE, capacity=100, sampler="uniform", seed=0)
    simulated = Table(SIGNATURE, capacity=100, sampler="uniform", min_size=8, seed=0)
    real.insert(chunk([float(value) for value in range(50)], version=3))
    simulated.insert(chunk([-1.0] * 20, version=9))
    mixed = MixedBatches(real, simulated, 16, 4, 0.0)
    found = np.zeros(50)
    for _ in range(1_000):
        batch = mixed.next(0.0)
        assert batch is not None
        rows = batch.reward[:4].astype(int)
        assert (np.diff(rows) > 0).all()
        assert (batch.key[:4] == rows).all()
        assert (np.abs(rows - [6, 18, 31, 43]) <= 8).all()
        found[rows] += 1
    np.testing.assert_allclose(found, 80, atol=4 * 80**0.5)


def test_stale_simulated_transitions_of_a_gated_planner_are_not_used_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.replay.mixture._FRESH_BATCHES", 10)
    monkeypatch.setattr("headrace.replay.mixture._STALE_BATCHES", 5)
    _, simulated, mixed = make(4)
    simulated.insert(chunk([-1.0] * 20, version=9))
    shares = []
    for index in range(50):
        if index == 35:
            simulated.insert(chunk([-1.0], version=10))
        batch = mixed.next(0.0)
        assert batch is not None
        shares.append(int((batch.reward == -1).sum()))
    assert shares == [12] * 10 + [0] * 25 + [12] * 10 + [0] * 5
