"""A snapshot of the learner's policy, and its encoding."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.clock import monotonic
from headrace.types import Array

__all__ = ["Snapshot", "SnapshotEncoder", "Stamp", "decode_snapshot"]

_PROBE = "probe"
_DTYPES = {
    **{"float32": "F32", "float64": "F64", "float16": "F16", "bool": "BOOL"},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
_NAMES = {short: name for name, short in _DTYPES.items()}
_ALIGNMENT = 8
_HEADER_GROWS_BYTES = 64
"""Room for the times of later snapshots, which may have more digits."""


class Stamp(NamedTuple):
    """A time on the clock shared by all processes of one host until it reboots."""

    host: str
    seconds: float

    @staticmethod
    def now() -> "Stamp":
        """The current time on this host."""
        return Stamp(_host(), monotonic())

    @property
    def age_seconds(self) -> float | None:
        """Seconds since then; None if the stamp is from another host."""
        return monotonic() - self.seconds if self.host == _host() else None

    def to_json(self) -> str:
        """The stamp as JSON."""
        return json.dumps(self)

    @staticmethod
    def from_json(text: str | bytes) -> "Stamp":
        """Reads what to_json() wrote."""
        host, seconds = json.loads(text)
        return Stamp(host, seconds)


class Snapshot(NamedTuple):
    """The policy's float32 parameters by name, and observations [n, *input] for measuring its error, or None."""

    weights: Mapping[str, Array]
    probe: Array | None
    taken: Stamp


class SnapshotEncoder:
    """Encodes each snapshot in the memory of the last: new memory of this size takes longer than the copy.

    Used instead of `safetensors.numpy.save`, which copies everything three times under Python's lock; this copies once,
    and large arrays without the lock. One thread at a time.
    """

    def __init__(self) -> None:
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def encode(self, snapshot: Snapshot) -> memoryview:
        """A safetensors file: parameters by name, "probe", and the time of the snapshot in the metadata.

        It is valid until the next call.
        """
        arrays = dict(snapshot.weights) if snapshot.probe is None else {**snapshot.weights, _PROBE: snapshot.probe}
        header: dict[str, Any] = {"__metadata__": {"taken": snapshot.taken.to_json()}}
        end = 0
        for name, value in arrays.items():
            header[name] = {
                "dtype": _DTYPES[str(value.dtype)],
                "shape": value.shape,
                "data_offsets": (end, end := end + value.nbytes),
            }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        begin = 8 + len(text)
        if len(self._memory) < begin + end:
            self._memory = np.empty(begin + end + _HEADER_GROWS_BYTES, np.uint8)
        file = self._memory[: begin + end]
        file[:begin] = np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)
        for name, value in arrays.items():
            first, last = header[name]["data_offsets"]
            np.copyto(file[begin + first : begin + last].view(value.dtype).reshape(value.shape), value)
        return file.data


def decode_snapshot(file: bytes | memoryview) -> Snapshot:
    """Reads what an encoder wrote; the arrays are views of it."""
    begin = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(bytes(file[8:begin]))
    taken = Stamp.from_json(header.pop("__metadata__")["taken"])
    arrays = {}
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        dtype = np.dtype(_NAMES[tensor["dtype"]])
        data = np.frombuffer(file, dtype, (last - first) // dtype.itemsize, begin + first)
        arrays[name] = data.reshape(tensor["shape"])
    return Snapshot(arrays, arrays.pop(_PROBE, None), taken)


@functools.cache
def _host() -> str:
    """Identifies one boot of one machine (Linux)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
