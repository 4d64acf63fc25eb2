"""Parameters on a torch device, here the CPU, against those of the native optimizer."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions
from headrace.errors import CheckpointError
from headrace.gradients.base import Applied, ParameterVector
from headrace.gradients.device import DeviceVector
from headrace.gradients.flat import read_vector, write_vector
from headrace.gradients.local import LocalVector

KINDS = ("sgd", "momentum", "rmsprop", "centered-rmsprop", "adagrad", "adam")


def pair(kind: str) -> tuple[DeviceVector, LocalVector]:
    initial = np.linspace(-1, 1, 7, dtype=np.float32)
    options = OptimizerOptions(kind, learning_rate=0.01, decay=0.9)
    return DeviceVector(initial, options, "cpu"), LocalVector(initial, options)


def train(vector: ParameterVector, steps: int) -> None:
    for step in range(steps):
        write_vector(vector.gradient, np.sin(np.arange(7, dtype=np.float32) + step))
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
        np.testing.assert_allclose(value, theirs[name], rtol=1.3e-6, atol=1e-5)
    device_again, local_again = pair(kind)
    device_again.load(theirs)
    local_again.load(ours)
    assert device_again.version == local_again.version == before
    for vector in (local, device_again, local_again):
        train(vector, 3)
        np.testing.assert_allclose(vector.state()["moments"], local.state()["moments"], rtol=1.3e-6, atol=1e-5)
        np.testing.assert_allclose(read_vector(vector.parameters), local.parameters, rtol=1.3e-6, atol=1e-5)


def test_a_constant_gradient_keeps_centered_rmsprop_finite() -> None:
    vectors = pair("centered-rmsprop")
    constant = np.linspace(0.1, 0.7, 7, dtype=np.float32)
    variances = []
    for _ in range(200):
        for vector in vectors:
            write_vector(vector.gradient, constant)
            vector.apply()
        square, mean = vectors[0].state()["moments"]
        variances.append(float((square - mean**2).min()))
    assert min(variances) < 0  # by rounding
    for vector in vectors:
        assert all(np.isfinite(value).all() for value in vector.state().values())


def test_its_parameters_and_gradient_are_the_optimizer_s() -> None:
    device, _ = pair("sgd")
    device.parameters[:] = 1.0
    device.gradient[:] = 2.0
    assert device.apply() == Applied(1, 0)
    assert device.pull() == 1
    assert device.parameters.tolist() == pytest.approx([0.98] * 7)


@pytest.mark.parametrize("missing", ["parameters", "moments", "steps"])
def test_a_checkpoint_without_its_moments_is_refused(missing: str) -> None:
    device, local = pair("adam")
    train(local, 1)
    state = {name: value for name, value in local.state().items() if name != missing}
    with pytest.raises(CheckpointError, match=f"{missing} is missing"):
        device.load(state)
    assert device.version == 0
    assert not device.state()["moments"].any()
