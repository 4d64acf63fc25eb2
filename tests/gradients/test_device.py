"""Parameters on a torch device, here the CPU, against those of the native optimizer."""

import numpy as np
import pytest
import torch

from headrace._native import OptimizerOptions
from headrace.errors import CheckpointError
from headrace.gradients.base import Applied, ParameterVector
from headrace.gradients.device import DeviceVector
from headrace.gradients.local import LocalVector

KINDS = ("sgd", "momentum", "rmsprop", "centered-rmsprop", "adagrad", "adam")


def pair(kind: str) -> tuple[DeviceVector, LocalVector]:
    initial = np.linspace(-1, 1, 7, dtype=np.float32)
    options = OptimizerOptions(kind, learning_rate=0.01, decay=0.9)
    return DeviceVector(initial, options, torch.device("cpu")), LocalVector(initial, options)


def train(vector: ParameterVector, steps: int) -> None:
    for step in range(steps):
        vector.gradient.copy_(torch.sin(torch.arange(7) + step))
        vector.apply()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [0, 3])
def test_checkpoints_are_interchangeable_with_the_native_optimizers(kind: str, before: int) -> None:
    device, local = pair(kind)
    train(device, before)
    train(local, before)
    ours, theirs = device.state(), local.state()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name])
    device_again, local_again = pair(kind)
    device_again.load(theirs)
    local_again.load(ours)
    assert device_again.version == local_again.version == before
    for vector in (local, device_again, local_again):
        train(vector, 3)
        torch.testing.assert_close(vector.state()["moments"], local.state()["moments"])
        torch.testing.assert_close(vector.parameters.detach(), local.parameters)


def test_a_constant_gradient_keeps_centered_rmsprop_finite() -> None:
    vectors = pair("centered-rmsprop")
    constant = torch.linspace(0.1, 0.7, 7)
    variances = []
    for _ in range(200):
        for vector in vectors:
            vector.gradient.copy_(constant)
            vector.apply()
        square, mean = vectors[0].state()["moments"]
        variances.append(float((square - mean**2).min()))
    assert min(variances) < 0  # by rounding
    for vector in vectors:
        assert all(torch.isfinite(value).all() for value in vector.state().values())


def test_its_gradient_is_that_of_its_parameters() -> None:
    device, _ = pair("sgd")
    (device.parameters**2).sum().backward()
    assert device.gradient.tolist() == pytest.approx(np.linspace(-2, 2, 7))
    assert device.apply() == Applied(1, 0)
    assert device.pull() == 1


@pytest.mark.parametrize("missing", ["parameters", "moments", "steps"])
def test_a_checkpoint_without_its_moments_is_refused(missing: str) -> None:
    device, local = pair("adam")
    train(local, 1)
    state = {name: value for name, value in local.state().items() if name != missing}
    with pytest.raises(CheckpointError, match=f"{missing} is missing"):
        device.load(state)
    assert device.version == 0
    assert not device.state()["moments"].any()
