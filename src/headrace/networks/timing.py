"""Measures the time of one inference in each precision on this machine."""

import statistics
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from headrace.networks.architecture import Architecture
from headrace.networks.graph_layers import LAYERS
from headrace.networks.graph_names import INPUT
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.precision import Precision
from headrace.networks.records import draw_records, split
from headrace.networks.session import open_session
from headrace.types import Array

__all__ = ["fastest", "is_slower", "measure_precisions"]

_TURNS = 7
_TURN_SECONDS = 0.01
_NOISE = 0.05


def measure_precisions(architecture: Architecture, batch: int) -> dict[Precision, float]:
    """Median seconds of one inference of `batch` observations, with random weights.

    The precisions take turns, so that a disturbance affects all of them. The first call of a turn does not count: the
    caches then hold other weights. Takes about half a second, and a quarter more for eight million weights.
    """
    random = np.random.default_rng(0)
    layout = architecture.layout
    weights = layout.views(layout.initial(random))
    inputs = _inputs(architecture, batch, random)
    sessions = {
        precision: open_session(PolicyGraph(architecture, precision).serialize(weights)) for precision in LAYERS
    }
    turns: dict[Precision, list[float]] = {precision: [] for precision in sessions}
    for _ in range(_TURNS):
        for precision, session in sessions.items():
            turns[precision].append(_take_turn(session, inputs))
    return {precision: statistics.median(seconds) for precision, seconds in turns.items()}


def fastest(seconds: Mapping[Precision, float]) -> Precision:
    """The precision with the shortest time; fp32 unless another is faster by more than noise."""
    best = min(seconds, key=lambda precision: seconds[precision])
    return best if seconds[best] < (1 - _NOISE) * seconds["fp32"] else "fp32"


def is_slower(seconds: Mapping[Precision, float], precision: Precision) -> bool:
    """Whether a precision takes longer than fp32 by more than noise."""
    return seconds[precision] > (1 + _NOISE) * seconds["fp32"]


def _inputs(architecture: Architecture, batch: int, random: np.random.Generator) -> dict[str, Array]:
    """Random inputs of the graph."""
    shape = (batch, *architecture.input_shape)
    if architecture.parts:
        return split(draw_records(random, batch, architecture.input_shape[0], architecture.parts), architecture.parts)
    dtype = np.dtype(architecture.input_dtype)
    whole = dtype.kind != "f"
    return {INPUT: (random.integers(0, 100, shape) if whole else random.random(shape)).astype(dtype)}


def _take_turn(session: Any, inputs: dict[str, Array]) -> float:
    session.run(None, inputs)
    seconds: list[float] = []
    begin = end = perf_counter()
    while end - begin < _TURN_SECONDS:
        before = end
        session.run(None, inputs)
        end = perf_counter()
        seconds.append(end - before)
    return statistics.median(seconds)
