"""What an updater learns: targets that follow, and its state in a checkpoint."""

import numpy as np
import pytest
import torch

from headrace._native import OptimizerOptions
from headrace.algorithms.learned import Follower, Learned, Target
from headrace.algorithms.opener import NetworkOpener
from headrace.errors import CheckpointError
from headrace.gradients.local import LocalVector
from headrace.networks.layout import Layout, Parameter
from headrace.types import FlatVector

LAYOUT = Layout((Parameter("a", (2,), 0.0, 1.0), Parameter("b", (1, 1), 0.0, 1.0)))
DESCENT = OptimizerOptions("sgd", learning_rate=0.5)


@pytest.mark.parametrize("online", [np.array([4, 8], np.float32), torch.tensor([4.0, 8.0])], ids=["array", "tensor"])
@pytest.mark.parametrize(
    ("rate", "versions", "expected"),
    [
        (1.0, (0, 2, 1), [0, 0]),
        (1.0, (2, 3, 1), [4, 8]),
        (0.25, (2, 3, 1), [1, 2]),
        (0.5, (2, 6, 1), [3, 6]),  # due twice: 1 - 0.5^2
        (1.0, (0, 5, 2), [0, 0]),  # of two sets of parameters, each has at most two of the three updates
        (1.0, (5, 6, 2), [4, 8]),
    ],
)
def test_a_target_follows_every_third_update(
    online: FlatVector, rate: float, versions: tuple[int, int, int], expected: list[float]
) -> None:
    target = Target.of(LAYOUT, online)
    target.vector[:] = 0
    Follower((target,), 3, rate).follow(*versions)
    assert target.vector.tolist() == expected
    assert online.tolist() == [4, 8]


def learned(seed: int) -> Learned:
    vector = NetworkOpener("native", "cpu", LocalVector, np.random.default_rng(seed)).vector(LAYOUT, DESCENT)
    return Learned({"target": Target.of(LAYOUT, vector.parameters)}, {"vector": vector})


def test_a_loaded_state_is_the_saved_one() -> None:
    source, other = learned(0), learned(1)
    source.vectors["vector"].gradient[:] = 1
    source.vectors["vector"].apply()
    state = source.state(7)
    assert state["target.b"].shape == (1, 1)
    assert other.load(state) == 7
    assert all(np.array_equal(value, state[name]) for name, value in other.state(7).items())
    source.vectors["vector"].apply()
    source.targets["target"].vector[:] = 5
    assert all(np.array_equal(value, state[name]) for name, value in other.state(7).items())  # it was a copy


@pytest.mark.parametrize(
    "change",
    [
        {"target.b": None},
        {"updates": None},
        {"vector.steps": None},
        {"target.a": np.zeros(3, np.float32)},
        {"target.c": np.zeros(1, np.float32)},
        {"other.a": np.zeros(1, np.float32)},
        {"updates": np.zeros(2)},
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, np.ndarray | None]) -> None:
    state = {name: value for name, value in (learned(0).state(7) | change).items() if value is not None}
    with pytest.raises(CheckpointError, match="fit these settings"):
        learned(1).load(state)
