"""Parameters of this process: what a checkpoint restores, and states that do not fit."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions
from headrace.errors import CheckpointError
from headrace.gradients.base import Applied
from headrace.gradients.local import LocalVector

MOMENTUM = OptimizerOptions("momentum", learning_rate=0.5, decay=0.5)


def test_a_step_of_the_optimizer() -> None:
    vector = LocalVector(np.array([1, 2], np.float32), MOMENTUM)
    vector.gradient.fill(2.0)
    assert vector.apply() == Applied(1, 0)
    assert vector.apply() == Applied(2, 0)
    assert vector.parameters.tolist() == [1 - 1 - 1.5, 2 - 1 - 1.5]
    assert vector.pull() == vector.version == 2


def test_an_incompatible_state_changes_nothing() -> None:
    vector = LocalVector(np.zeros(3, np.float32), MOMENTUM)
    other = LocalVector(np.ones(3, np.float32), MOMENTUM)
    other.gradient.fill(1.0)
    other.apply()
    state = other.state()
    wrong = (
        ("parameters", np.ones(1)),  # which NumPy would broadcast
        ("parameters", np.ones((1, 3))),
        ("moments", np.ones(3)),
        ("moments", np.ones((2, 3))),
        ("steps", np.ones(2)),
    )
    for name, value in wrong:
        with pytest.raises(CheckpointError, match=f"{name} is .* is required"):
            vector.load({**state, name: value})
    for name in state:
        with pytest.raises(CheckpointError, match=f"{name} is missing"):
            vector.load({key: value for key, value in state.items() if key != name})
    assert vector.parameters.tolist() == [0, 0, 0]
    assert vector.version == 0
    assert not vector.state()["moments"].any()
    vector.load(state)
    assert vector.version == 1
    assert vector.parameters.tolist() == [0.5, 0.5, 0.5]
