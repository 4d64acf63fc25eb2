"""The learner's counts, and the staleness of the policies that made a batch."""

from typing import Any

import numpy as np
import pytest

from headrace.algorithms.base import Update, Updater
from headrace.errors import ServerError
from headrace.roles.learner import Learner
from headrace.types import Array, Batch


class Still(Updater):
    """Learns nothing."""

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        return ()

    def update(self, tensors: tuple[Any, ...]) -> Update:
        return Update(np.zeros(3, np.float32), 0.5)

    def weights(self) -> dict[str, Array]:
        return {}


def batch(versions: list[int]) -> Batch:
    empty = np.zeros(len(versions), np.float32)
    fields = dict.fromkeys(Batch._fields, empty)
    return Batch(**{**fields, "policy_version": np.array(versions, np.uint64)})


@pytest.mark.parametrize(
    ("versions", "staleness"),
    [
        ([1, 4, 10], 6.0),  # of a policy of version 11: 10, 7 and 1 behind
        ([1, 11, 900], 10 / 3),  # 900 is from before the run went back to a checkpoint
        ([900, 901, 902], 0.0),
    ],
)
def test_staleness_is_never_negative(versions: list[int], staleness: float) -> None:
    learner = Learner(Still(), lambda timeout: batch(versions), None, None, publish_period=100)
    learner.resume(10, None)
    assert learner.step(1.0)
    assert learner.staleness == pytest.approx(staleness)
    assert learner.steps == 11


def test_mean_staleness_is_that_of_all_updates_also_of_earlier_starts() -> None:
    batches = iter([batch([1]), batch([12])])
    learner = Learner(Still(), lambda timeout: next(batches), None, None, publish_period=100)
    assert learner.mean_staleness is None
    learner.resume(10, 2.0)
    staleness = []
    for _ in range(2):
        learner.step(1.0)
        staleness.append(learner.staleness)
    assert staleness == [10.0, 0.0]  # of policies of versions 11 and 12
    assert learner.mean_staleness == pytest.approx((10 * 2.0 + 10.0 + 0.0) / 12)


def test_an_update_counts_though_the_server_does_not_take_its_priorities() -> None:
    def refuse(*arguments: object) -> None:
        raise ServerError("the server was restarted")

    learner = Learner(Still(), lambda timeout: batch([1]), refuse, None, publish_period=100)
    with pytest.raises(ServerError):
        learner.step(1.0)
    assert (learner.steps, learner.loss) == (1, 0.5)
