"""Describes this machine's hardware and chooses the device."""

import platform
from pathlib import Path
from typing import Any

import torch

from headrace.errors import ConfigError
from headrace.machine import available_cores

__all__ = ["choose_device", "describe_machine"]


def choose_device(name: str) -> torch.device:
    """The torch device of this name; "auto" is CUDA if there is a GPU. Raises ConfigError if it is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name}; it must be auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name}; it must be auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device is {name}; torch finds {torch.cuda.device_count()} GPUs here: use cpu or auto")
    return device


def describe_machine() -> dict[str, Any]:
    """Cores, processor and GPU, for the records."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cores": available_cores(), "processor": processor, "gpu": gpu, "torch": torch.__version__}
