"""Times of inference in each precision, over widths and batches."""

import dataclasses
from typing import Any, NamedTuple

from headrace.networks import Architecture
from headrace.networks.timing import measure_precisions
from headrace.studies.sheet import fingerprint
from headrace.types import EnvironmentSpec

__all__ = ["COLUMNS", "CrossoverCase", "measure_crossover"]

COLUMNS = ("width", "batch", "fp32_us", "fp16_us", "int8_us", "int8_speedup", "fp16_speedup")
"""Columns of a row of measure_crossover()."""
_SPEC = EnvironmentSpec((17,), "float32", actions=6, continuous=True)  # cheetah-run's
_LAYERS = 3


class CrossoverCase(NamedTuple):
    """Inference of a policy with three layers of one width, for one batch size."""

    width: int
    batch: int

    def __str__(self) -> str:
        return f"width {self.width}, batch {self.batch}"

    @property
    def name(self) -> str:
        """A name that is equal for equal settings, including those that all cases share."""
        return fingerprint("crossover", [*self, _LAYERS, dataclasses.asdict(_SPEC)])


def measure_crossover(case: CrossoverCase) -> dict[str, Any]:
    """One row: microseconds of an inference in each precision, on one core."""
    architecture = Architecture.of(_SPEC, "mlp", (case.width,) * _LAYERS)
    seconds = measure_precisions(architecture, case.batch)
    return {
        "width": case.width,
        "batch": case.batch,
        "fp32_us": 1e6 * seconds["fp32"],
        "fp16_us": 1e6 * seconds["fp16"],
        "int8_us": 1e6 * seconds["int8"],
        "int8_speedup": seconds["fp32"] / seconds["int8"],
        "fp16_speedup": seconds["fp32"] / seconds["fp16"],
    }
