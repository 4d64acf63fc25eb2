"""Vectors over memory that workers share, with sums worked out by hand."""

import json

import numpy as np
import pytest

from headrace._native import OptimizerOptions, SharedModel
from headrace.errors import CheckpointError
from headrace.gradients.base import Applied, ParameterVector
from headrace.gradients.handles import ServedHandle, SharedHandle, VectorHandle
from headrace.gradients.measured import STALENESS, MeasuredVector
from headrace.gradients.served import ServedOptions
from headrace.gradients.shared import AveragedVector, CopiedVector, HogwildVector, OverseenVector
from headrace.servers import Endpoint

DESCENT = OptimizerOptions("sgd", learning_rate=0.5)


def model(mode: str, workers: int = 2, values: tuple[float, ...] = (1.0, 2.0)) -> SharedModel:
    return SharedModel.create(
        np.array(values, np.float32), DESCENT, mode=mode, workers=workers, own_optimizer_state=mode == "ad-psgd"
    )


def push(vector: ParameterVector, gradient: float) -> Applied:
    vector.gradient[:] = gradient
    return vector.apply()


@pytest.mark.parametrize(("mode", "sets"), [("lock", 1), ("hogwild", 1), ("ad-psgd", 3)])
def test_a_vector_knows_among_how_many_sets_updates_are_divided(mode: str, sets: int) -> None:
    shared = model(mode, workers=3)
    for vector in (OverseenVector(shared), CopiedVector(shared, 0), MeasuredVector(CopiedVector(shared, 1))):
        assert vector.parameter_sets == sets


@pytest.mark.parametrize("mode", ["lock", "hogwild"])
def test_a_copied_vector_shows_other_updates_after_the_next_pull(mode: str) -> None:
    shared = model(mode)
    one, other = CopiedVector(shared, 0), CopiedVector(shared, 1)
    assert push(one, 2.0) == Applied(1, 0)
    assert other.parameters.tolist() == [1.0, 2.0]
    assert push(other, 4.0) == Applied(2, 1)  # computed before the other's step
    assert other.pull() == 2
    assert other.parameters.tolist() == [1.0 - 1.0 - 2.0, 2.0 - 1.0 - 2.0]
    assert push(other, 0.0) == Applied(3, 0)


def test_a_hogwild_vector_shows_other_updates_at_once() -> None:
    shared = model("hogwild")
    one, other = HogwildVector(shared, 0), HogwildVector(shared, 1)
    push(one, 2.0)
    assert other.parameters.tolist() == [0.0, 1.0]
    assert push(other, 0.0) == Applied(2, 1)
    assert OverseenVector(shared).parameters.tolist() == [0.0, 1.0]


def test_averaged_vectors_take_their_mean_every_second_update() -> None:
    shared = model("ad-psgd")
    one, other = AveragedVector(shared, 0, 2, seed=0), AveragedVector(shared, 1, 2, seed=0)
    watching = OverseenVector(shared)
    push(one, 4.0)
    assert (one.parameters.tolist(), other.parameters.tolist()) == ([-1.0, 0.0], [1.0, 2.0])
    watching.pull()
    assert watching.parameters.tolist() == [0.0, 1.0]
    push(one, 4.0)  # to [-3, -2]; with [1, 2] the mean is [-1, 0]
    assert one.parameters.tolist() == other.parameters.tolist() == [-1.0, 0.0]


def test_a_copied_averaged_vector_shows_averages_after_the_next_pull() -> None:
    shared = model("ad-psgd")
    one, other = AveragedVector(shared, 0, 1, seed=0), AveragedVector(shared, 1, 1, seed=0, live=False)
    push(one, 4.0)  # to [-1, 0]; with [1, 2] the mean is [0, 1]
    assert (one.parameters.tolist(), other.parameters.tolist()) == ([0.0, 1.0], [1.0, 2.0])
    assert other.pull() == 1
    assert other.parameters.tolist() == [0.0, 1.0]
    push(other, 4.0)  # to [-2, -1]; the mean with [0, 1]
    assert other.parameters.tolist() == [0.0, 1.0]
    assert other.pull() == 2
    assert other.parameters.tolist() == one.parameters.tolist() == [-1.0, 0.0]


@pytest.mark.parametrize("mode", ["lock", "hogwild", "ad-psgd"])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted_as_refused(mode: str) -> None:
    shared = model(mode, workers=1)
    handle = SharedHandle(shared.path, mode)  # type: ignore[arg-type]  # of the three modes
    vector = handle.open(np.zeros(0, np.float32), DESCENT, Endpoint(""), 0, 0)
    assert push(vector, float("nan")) == Applied(0, -1, accepted=False)
    assert vector.parameters.tolist() == [1.0, 2.0]
    push(vector, 2.0)
    vector.pull()
    assert vector.parameters.tolist() == [0.0, 1.0]
    said = vector.totals()
    assert (said["accepted"], said["dropped"], said["refused"], said["version"]) == (1, 0, 1, 1)
    assert sum(said["staleness"].values()) == 1


@pytest.mark.parametrize("mode", ["lock", "hogwild", "ad-psgd"])
def test_state_loads_into_a_model_of_the_same_size_only(mode: str) -> None:
    shared = model(mode)
    watching = OverseenVector(shared)
    handle = SharedHandle(shared.path, mode)  # type: ignore[arg-type]  # of the three modes
    push(handle.open(np.zeros(0, np.float32), DESCENT, Endpoint(""), 0, 0), 2.0)
    state = watching.state()
    again = OverseenVector(model(mode))
    again.load(state)
    assert again.version == 1
    assert again.parameters.tolist() == [0.0, 1.0]
    with pytest.raises(CheckpointError, match="do not fit these settings"):
        OverseenVector(model(mode, values=(1.0, 2.0, 3.0))).load(state)


class Told(ParameterVector):
    """Returns preset results."""

    version = 0

    def __init__(self, *answers: Applied) -> None:
        self._answers = list(answers)

    def apply(self) -> Applied:
        return self._answers.pop(0)


def test_gradients_are_counted_by_staleness() -> None:
    behind = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 1000)
    waited = [5.0]
    vector = MeasuredVector(Told(*(Applied(9, each, each < 1000) for each in behind)), lambda: waited[0])
    for _ in behind:
        vector.apply()
    waited[0] = 7.5
    said = vector.totals()
    assert said["staleness"] == dict(zip(STALENESS, (1, 1, 1, 1, 2, 2, 2, 2), strict=True))
    assert said["staleness_sum"] == sum(behind)
    assert (said["accepted"], said["dropped"], said["refused"]) == (11, 1, 0)
    assert said["lock_wait_seconds"] == 2.5


def test_a_gradient_in_a_pending_sum_is_not_counted() -> None:
    vector = MeasuredVector(Told(Applied(0, None), Applied(0, None), Applied(1, 2)))
    for _ in range(3):
        vector.apply()
    said = vector.totals()
    assert (said["accepted"], said["staleness_sum"], sum(said["staleness"].values()), said["version"]) == (1, 2, 1, 1)


@pytest.mark.parametrize(
    "handle",
    [
        SharedHandle("/proc/1/fd/2", "ad-psgd", 3, live=False),
        ServedHandle(ServedOptions(2, ("tcp://a:1",), staleness="drop", staleness_limit=4)),
    ],
)
def test_a_handle_round_trips_through_json(handle: SharedHandle | ServedHandle) -> None:
    assert VectorHandle.from_record(json.loads(json.dumps(handle.to_record()))) == handle


def test_the_overseen_vector_applies_no_gradients() -> None:
    watching = OverseenVector(model("lock"))
    with pytest.raises(RuntimeError, match="applies no gradients"):
        watching.apply()
    assert watching.parameters.tolist() == [1.0, 2.0]
