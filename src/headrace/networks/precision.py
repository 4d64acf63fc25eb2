"""The precisions in which a policy can run."""

from typing import Literal

__all__ = ["Precision"]

Precision = Literal["fp32", "fp16", "int8"]
