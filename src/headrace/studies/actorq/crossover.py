"""Inference of one policy in each precision, over widths and batches."""

from typing import Any

from headrace.networks import Architecture
from headrace.networks.timing import measure_precisions
from headrace.studies.actorq.plan import CrossoverCase
from headrace.types import EnvironmentSpec

__all__ = ["measure_crossover"]

_SPEC = EnvironmentSpec((17,), "float32", actions=6, continuous=True)  # cheetah-run's
_LAYERS = 3


def measure_crossover(case: CrossoverCase) -> dict[str, Any]:
    """One row: microseconds of an inference in each precision, on one core."""
    architecture = Architecture.of(_SPEC, "mlp", (case.width,) * _LAYERS)
    seconds = measure_precisions(architecture, case.batch)
    times = {f"{precision}_us": 1e6 * each for precision, each in seconds.items()}
    return {
        "width": case.width,
        "batch": case.batch,
        **times,
        "int8_speedup": seconds["fp32"] / seconds["int8"],
        "fp16_speedup": seconds["fp32"] / seconds["fp16"],
    }
