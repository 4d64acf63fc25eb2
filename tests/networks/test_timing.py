"""Choosing by measured times."""

import pytest

from headrace.networks import Architecture
from headrace.networks.timing import fastest, is_slower, measure_precisions
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({"fp32": 10.0, "fp16": 10.0, "int8": 2.0}, "int8"),
        ({"fp32": 10.0, "fp16": 9.0, "int8": 11.0}, "fp16"),
        ({"fp32": 10.0, "fp16": 9.6, "int8": 9.7}, "fp32"),  # within noise
        ({"fp32": 10.0, "fp16": 12.0, "int8": 14.0}, "fp32"),
    ],
)
def test_fastest(seconds, expected) -> None:
    assert fastest(seconds) == expected


def test_slower_is_more_than_noise() -> None:
    seconds = {"fp32": 10.0, "fp16": 10.4, "int8": 10.6}
    assert not is_slower(seconds, "fp32")
    assert not is_slower(seconds, "fp16")
    assert is_slower(seconds, "int8")


@pytest.mark.parametrize(
    "spec",
    [EnvironmentSpec((8,), "float64", 4), EnvironmentSpec((3,), "int32", 2), EnvironmentSpec((36, 36), "uint8", 2)],
)
def test_every_precision_is_measured(spec) -> None:
    seconds = measure_precisions(Architecture.of(spec, "auto", (64, 64)), batch=2)
    assert set(seconds) == {"fp32", "fp16", "int8"}
    assert all(each > 0 for each in seconds.values())
