"""Describes this machine's hardware and chooses the device."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headrace.clock import simulated_cores
from headrace.errors import ConfigError
from headrace.machine import available_cores, processor_name

__all__ = ["choose_device", "describe_machine"]

_DRIVER_FILES = ("nvidia*", "nvhost*", "dxg", "kfd")
"""Device files of the drivers of GPUs that torch calls "cuda": NVIDIA's, on Jetson and under WSL too, and AMD's."""


def choose_device(name: str) -> str:
    """The device of this name, "cpu" or "cuda:N"; "auto" is a GPU if there is one and torch is installed.

    In a simulated run "auto" is the CPU, so that results do not depend on the machine. Torch is imported only if there
    may be a GPU, or one is required. Raises ConfigError if the device is not available.
    """
    if name == "cpu" or (name == "auto" and (simulated_cores() is not None or not _may_have_gpu())):
        return "cpu"
    try:
        import torch
    except ImportError as error:
        if name == "auto":
            return "cpu"
        raise ConfigError(f"device is {name}, which needs torch ({error}): pip install 'headrace[torch]'") from error

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name}; it must be auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name}; it must be auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device is {name}; torch finds {torch.cuda.device_count()} GPUs here: use cpu or auto")
    return "cpu" if device.type == "cpu" else str(device)


def describe_machine() -> dict[str, Any]:
    """Cores, processor, and the GPU if this process has looked for one, for the records."""
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else None
    return {"cores": available_cores(), "processor": processor_name(), "gpu": gpu, "torch": _torch_version()}


def _may_have_gpu() -> bool:
    return any(any(Path("/dev").glob(pattern)) for pattern in _DRIVER_FILES)


def _torch_version() -> str | None:
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
