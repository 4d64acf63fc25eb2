"""What Headrace's table is held against: cpprb, and a plain gather in C."""

import ctypes
import itertools
import mmap
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cpprb
import numpy as np
from numpy.typing import NDArray

from benchmarks.experience import CHUNK_STEPS, DISCOUNT, N_STEP, Steps, stacks_of
from headrace.types import Array

__all__ = [
    "CPPRB",
    "PRIORITY_EXPONENT",
    "compressed_frames",
    "nstep_options",
    "plain_buffer",
    "random_gather",
    "transitions_of",
]

CPPRB = f"cpprb {version('cpprb')}"
PRIORITY_EXPONENT = 0.6


def plain_buffer(capacity: int, shape: tuple[int, ...], dtype: str, **options: Any) -> cpprb.PrioritizedReplayBuffer:
    """A cpprb buffer with both observations stored in full: its fastest layout."""
    observation = {"shape": shape, "dtype": np.dtype(dtype)}
    fields = {"obs": observation, "next_obs": observation, "act": {"dtype": np.int64}, "rew": {}, "done": {}}
    return cpprb.PrioritizedReplayBuffer(capacity, fields, alpha=PRIORITY_EXPONENT, **options)


def compressed_frames(capacity: int, stack: int, shape: tuple[int, ...]) -> cpprb.PrioritizedReplayBuffer:
    """A cpprb buffer with each frame stored once: stacks on the last axis, the next observation one step ahead."""
    fields = {
        "obs": {"shape": (*shape, stack), "dtype": np.uint8},
        "act": {"dtype": np.int64},
        "rew": {},
        "done": {},
    }
    options = {"next_of": "obs", "stack_compress": "obs"}
    return cpprb.PrioritizedReplayBuffer(capacity, fields, alpha=PRIORITY_EXPONENT, **options)


def transitions_of(steps: Steps, stack: int) -> list[dict[str, Array]]:
    """The steps as arguments of add(), 50 n-step transitions each: already stacked, so that add() only stores."""
    observation = stacks_of(steps, stack) if stack > 1 else steps.frame
    batches = []
    for begin in range(0, len(observation) - N_STEP - CHUNK_STEPS + 1, CHUNK_STEPS):
        end = begin + CHUNK_STEPS
        batches.append(
            {
                "obs": observation[begin:end].copy(),
                "next_obs": observation[begin + N_STEP : end + N_STEP].copy(),
                "act": steps.action[begin:end],
                "rew": steps.reward[begin:end],
                "done": np.zeros(CHUNK_STEPS, np.float32),
                "priorities": np.abs(steps.value[begin:end]).astype(np.float32),
            }
        )
    return batches


def nstep_options() -> dict[str, Any]:
    """Lets cpprb add up n-step returns itself, from single steps."""
    return {"Nstep": {"size": N_STEP, "gamma": DISCOUNT, "rew": "rew", "next": "next_obs"}}


def _load_gather() -> Any:
    """Compiles gather.c for this machine; the function of that name."""
    source = Path(__file__).with_name("gather.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "gather.so"
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.CDLL(str(library)).gather


def random_gather(
    stored_bytes: int, frame_bytes: int, stack: int, observation: Array, next_observation: Array
) -> Callable[[], None]:
    """A call that copies one batch from random frames of `stored_bytes` on huge pages, as a sample of stacks would.

    Source and reach are a sample's: as many bytes are stored, a place is where any frame begins, places rise as those
    of a stratified sample do, and the next stack lies n frames after the first. Each call takes other places; the
    batch goes where the sample's goes.
    """
    gather = _load_gather()
    frames = stored_bytes // frame_bytes
    memory = mmap.mmap(-1, frames * frame_bytes)
    memory.madvise(mmap.MADV_HUGEPAGE)
    source = np.frombuffer(memory, np.uint8)
    rng = np.random.default_rng(0)
    source[:] = rng.integers(0, 256, len(source), np.uint8)
    batch = len(observation)
    places: list[NDArray[np.uint64]] = [
        np.sort(rng.integers(0, frames - stack - N_STEP + 1, batch)).astype(np.uint64) * np.uint64(frame_bytes)
        for _ in range(64)
    ]
    turn = itertools.cycle(places)

    def copy() -> None:
        gather(
            ctypes.c_void_p(source.ctypes.data),
            ctypes.c_void_p(next(turn).ctypes.data),
            ctypes.c_size_t(batch),
            ctypes.c_size_t(stack * frame_bytes),
            ctypes.c_size_t(N_STEP * frame_bytes),
            ctypes.c_void_p(observation.ctypes.data),
            ctypes.c_void_p(next_observation.ctypes.data),
        )

    return copy
