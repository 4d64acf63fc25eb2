"""Joining of bytes."""

from typing import Any, cast

import numpy as np
import pytest

from headrace._native import Server, join_bytes
from headrace.errors import ConfigError


def test_parts_are_joined_in_order() -> None:
    assert join_bytes([b"ab", memoryview(b"cd"), b"", memoryview(np.array([1, 2], np.uint8))]) == b"abcd\x01\x02"
    assert join_bytes([]) == b""


def test_a_part_that_is_no_bytes_is_an_error() -> None:
    with pytest.raises(ConfigError, match="part: a str"):
        join_bytes([b"a", cast(Any, "b")])


def test_bytes_of_more_than_the_heap_keeps_are_whole() -> None:
    part = np.random.default_rng(0).bytes(20 << 20)
    joined = join_bytes([part, part[:-5], b"end"])
    assert joined == part + part[:-5] + b"end"
    server = Server()
    server.publish("policy", joined)
    assert server.fetch("policy") == (1, joined)
