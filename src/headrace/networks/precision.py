"""The arithmetic that a policy can run in."""

from typing import Literal

__all__ = ["Precision"]

Precision = Literal["fp32", "fp16", "int8"]
