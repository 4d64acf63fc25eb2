"""Observations that are stored as records: their parts, and what dense layers see of them."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array, EnvironmentSpec, Part

__all__ = ["ILLEGAL", "draw_observations", "draw_records", "expand", "one_hot", "split", "width"]

ILLEGAL = float(np.float32(-1e30))
"""A policy's output for an action that its mask excludes: finite, so that differences and products with 0 are too."""


def split(record: Array, parts: Sequence[Part]) -> dict[str, Array]:
    """Records [B, R] uint8 -> each part's values [B, *shape], by name."""
    values = {}
    for part in parts:
        dtype = np.dtype(part.dtype)
        column = record[:, part.offset : part.offset + prod(part.shape) * dtype.itemsize]
        values[part.name] = np.ascontiguousarray(column).view(dtype).reshape(len(record), *part.shape)
    return values


def one_hot(part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and value [F]: feature f of a part with categories is 1 where integer number index[f] equals value[f]."""
    index = np.repeat(np.arange(len(part.categories)), part.categories)
    values = [np.arange(count) + start for count, start in zip(part.categories, part.start, strict=True)]
    return index, np.concatenate(values, dtype=np.int64)


def width(part: Part) -> int:
    """Number of features of a part for a dense layer."""
    return sum(part.categories) if part.categories else prod(part.shape)


def expand(record: Array, parts: Sequence[Part]) -> NDArray[np.float32]:
    """Records [B, R] uint8 -> features [B, F] of all parts, side by side.

    Categories are one-hot and bytes (uint8) are scaled to [0, 1], as in `torch_modules.features_of()`.
    """
    features = np.empty((len(record), sum(map(width, parts))), np.float32)
    begin = 0
    for part, value in zip(parts, split(record, parts).values(), strict=True):
        columns = features[:, begin : begin + width(part)]
        flat = value.reshape(len(record), -1)
        if part.categories:
            index, values = one_hot(part)
            np.equal(flat[:, index], values, out=columns, casting="unsafe")
        elif part.dtype == "uint8":
            np.multiply(flat, np.float32(1 / 255), out=columns, casting="unsafe")
        else:
            columns[:] = flat
        begin += width(part)
    return features


def draw_records(random: np.random.Generator, count: int, size: int, parts: Sequence[Part]) -> NDArray[np.uint8]:
    """Random records [count, size] whose values are possible: categories that exist, and masks with a legal action."""
    records = np.zeros((count, size), np.uint8)
    for part in parts:
        dtype, shape = np.dtype(part.dtype), (count, prod(part.shape))
        if part.categories:
            value: Array = part.start + random.integers(0, part.categories, shape)
        elif dtype.kind == "f":
            value = random.standard_normal(shape)
        else:
            value = random.integers(0, 256 if part.dtype == "uint8" else 2, shape)
            value[:, :1] = 1
        stored = np.ascontiguousarray(value.astype(dtype)).view(np.uint8)
        records[:, part.offset : part.offset + stored.shape[1]] = stored
    return records


def draw_observations(random: np.random.Generator, count: int, spec: EnvironmentSpec) -> Array:
    """Random observations [count, *input] as the policy sees them; those that are records as draw_records()."""
    if spec.parts:
        return draw_records(random, count, spec.observation_shape[0], spec.parts)
    shape = (count, *spec.input_shape)
    if spec.observation_dtype == "uint8":
        return random.integers(0, 256, shape, np.uint8)
    return random.standard_normal(shape).astype(spec.observation_dtype)
