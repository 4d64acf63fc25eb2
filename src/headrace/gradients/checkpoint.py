"""Checkpoint state of a vector that belongs to one process, on any device."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import CheckpointError
from headrace.types import Array

__all__ = ["VectorState", "read_state"]


class VectorState(NamedTuple):
    """State of P parameters and an optimizer with M moments."""

    parameters: NDArray[np.float32]  # [P]
    moments: NDArray[np.float32]  # [M, P], in the native optimizer's order
    steps: int


def read_state(state: Mapping[str, Array], count: int, moments: int) -> VectorState:
    """Checks a checkpoint's state against `count` parameters and `moments`; raises CheckpointError."""
    fit = {"parameters": (count,), "moments": (moments, count), "steps": ()}
    for name, shape in fit.items():
        found = tuple(state[name].shape) if name in state else "missing"
        if found != shape:
            raise CheckpointError(
                f"the checkpoint's parameters do not fit these settings: {name} is {found}, and {shape} is required"
            )
    parameters, values = (state[name].astype(np.float32) for name in ("parameters", "moments"))
    return VectorState(parameters, values, int(state["steps"]))
