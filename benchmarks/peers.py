"""The peer of Headrace's table: cpprb."""

from importlib.metadata import version
from typing import Any

import cpprb
import numpy as np

from benchmarks.experience import CHUNK_STEPS, DISCOUNT, N_STEP, Steps, stacks_of
from headrace.types import Array

__all__ = [
    "CPPRB",
    "PRIORITY_EXPONENT",
    "compressed_frames",
    "nstep_options",
    "plain_buffer",
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
    """Adds single steps, from which cpprb computes n-step returns."""
    return {"Nstep": {"size": N_STEP, "gamma": DISCOUNT, "rew": "rew", "next": "next_obs"}}
