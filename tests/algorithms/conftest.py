"""What the tests of continuous algorithms have in common."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.types import Array, Batch, EnvironmentSpec

SPEC = EnvironmentSpec((3,), "float32", 2, continuous=True)
CPU = "cpu"


def make_batch(size: int = 32, seed: int = 0) -> Batch:
    """Random transitions."""
    random = np.random.default_rng(seed)
    return Batch(
        observation=random.standard_normal((size, 3)).astype(np.float32),
        next_observation=random.standard_normal((size, 3)).astype(np.float32),
        action=random.uniform(-1, 1, (size, 2)).astype(np.float32),
        reward=random.standard_normal(size).astype(np.float32),
        discount=np.where(random.random(size) < 0.2, 0, 0.9).astype(np.float32),
        weight=random.uniform(0.1, 1, size).astype(np.float32),
        probability=np.full(size, 1 / size, np.float32),
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.ones(size, np.uint64),
    )


def ended(seed: int) -> Batch:
    """Episodes that end at once; rewards fall with the distance of the action from (0.5, -0.3): Q is known."""
    batch = make_batch(size=128, seed=seed)
    reward = 2 - 2 * np.square(batch.action - np.array([0.5, -0.3], np.float32)).sum(1)
    return batch._replace(reward=reward, discount=np.zeros(128, np.float32), weight=np.ones(128, np.float32))


def noise_of(state: dict[str, Array]) -> np.random.Generator:
    """The generator whose state is in the updater's."""
    random = np.random.default_rng()
    random.bit_generator.state = json.loads(state["random"].tobytes())
    return random


def split_parameters(vector: Array, shapes: Sequence[tuple[int, ...]]) -> Iterator[Tensor]:
    """The parameters in a flat vector as float64 leaves of these shapes."""
    parts = torch.split(torch.from_numpy(vector), [int(np.prod(shape)) for shape in shapes])
    return (part.double().view(shape).requires_grad_() for part, shape in zip(parts, shapes, strict=True))


def twin_value(p: Sequence[Tensor], member: int, s: Tensor, a: Tensor) -> Tensor:
    """Q [B] of one of two critics with two hidden layers, whose weights come first in the parameters."""
    h = torch.cat([s, a], 1)
    for layer in range(3):
        h = h @ p[layer][member] + p[3 + layer][member]
        h = h.clamp(min=0) if layer < 2 else h
    return h[:, 0]
