"""The snapshots that the learner publishes for the quantizer."""

import numpy as np
import pytest
from safetensors.numpy import load

from headrace.parameters import snapshot
from headrace.parameters.snapshot import Snapshot, SnapshotEncoder, Stamp, decode_snapshot

WEIGHTS = {
    "dense_0.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "dense_0.bias": np.array([-1.5, 0.25, 1e-30], np.float32),
}


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int16", "bool"])
def test_it_is_a_safetensors_file(dtype: str) -> None:
    probe = np.ones((2, 3, 5), dtype)
    file = SnapshotEncoder().encode(Snapshot(WEIGHTS, probe, Stamp("here", 1.5)))
    arrays = load(bytes(file))
    assert arrays.keys() == {*WEIGHTS, "probe"}
    for name, value in {**WEIGHTS, "probe": probe}.items():
        assert arrays[name].dtype == value.dtype
        np.testing.assert_array_equal(arrays[name], value)


def test_what_was_encoded_is_decoded() -> None:
    probe = np.array([[1], [2]], np.uint8)
    taken = Stamp("here", 12.25)
    decoded = decode_snapshot(bytes(SnapshotEncoder().encode(Snapshot(WEIGHTS, probe, taken))))
    assert decoded.taken == taken
    assert decoded.probe is not None
    np.testing.assert_array_equal(decoded.probe, probe)
    assert decoded.weights.keys() == WEIGHTS.keys()
    for name, value in WEIGHTS.items():
        np.testing.assert_array_equal(decoded.weights[name], value)


def test_before_the_first_batch_there_is_no_probe() -> None:
    file = SnapshotEncoder().encode(Snapshot(WEIGHTS, None, Stamp.now()))
    assert decode_snapshot(file).probe is None


def test_later_changes_do_not_affect_an_encoded_snapshot() -> None:
    weights = {"q.bias": np.zeros(2, np.float32)}
    file = SnapshotEncoder().encode(Snapshot(weights, None, Stamp.now()))
    weights["q.bias"][:] = 1
    np.testing.assert_array_equal(decode_snapshot(file).weights["q.bias"], [0, 0])


def test_an_encoder_uses_its_memory_again_for_larger_and_smaller_snapshots() -> None:
    encoder = SnapshotEncoder()
    for size in (2, 5_000, 3, 4_999):
        value = np.arange(size, dtype=np.float32)
        decoded = decode_snapshot(encoder.encode(Snapshot({"q.bias": value}, None, Stamp.now())))
        np.testing.assert_array_equal(decoded.weights["q.bias"], value)
    before = decode_snapshot(encoder.encode(Snapshot({"q.bias": value}, None, Stamp.now()))).weights["q.bias"]
    encoder.encode(Snapshot({"q.bias": value + 1}, None, Stamp.now()))
    np.testing.assert_array_equal(before, value + 1)


def test_strided_parameters_are_encoded_in_order() -> None:
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    decoded = decode_snapshot(SnapshotEncoder().encode(Snapshot({"q.weight": transposed}, None, Stamp.now())))
    np.testing.assert_array_equal(decoded.weights["q.weight"], [[0, 3], [1, 4], [2, 5]])


def test_a_stamp_gives_its_age_on_its_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = Stamp.now()
    monkeypatch.setattr(snapshot, "monotonic", lambda: stamp.seconds + 0.125)
    assert Stamp.from_json(stamp.to_json()).age_seconds == 0.125
    assert Stamp("elsewhere", stamp.seconds).age_seconds is None
