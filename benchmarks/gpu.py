"""A learner's update on a GPU against the engine that the CPU has for it; needs a GPU."""

import sys
from collections.abc import Callable

import numpy as np

from benchmarks.measure import Row, faster, interleave, report, require, warn_if_busy
from headrace.algorithms.config import OffPolicy
from headrace.types import Array, Batch, EnvironmentSpec

_REPEATS = 9


def _batch(spec: EnvironmentSpec, rows: int) -> Batch:
    """Random transitions."""
    random = np.random.default_rng(0)
    shape = (rows, *spec.input_shape)
    frames: Array = (
        random.integers(0, 256, shape, np.uint8)
        if spec.observation_dtype == "uint8"
        else random.standard_normal(shape, np.float32)
    )
    continuous = random.uniform(-1, 1, (rows, spec.actions)).astype(np.float32)
    return Batch(
        observation=frames,
        action=continuous if spec.continuous else random.integers(0, spec.actions, rows),
        reward=random.standard_normal(rows, np.float32),
        discount=np.full(rows, 0.97, np.float32),
        next_observation=frames.copy(),
        weight=random.uniform(0.5, 1, rows).astype(np.float32),
        key=np.arange(rows, dtype=np.uint64),
        probability=np.full(rows, 1 / rows, np.float32),
        policy_version=np.zeros(rows, np.uint64),
    )


def _update(algorithm: OffPolicy, spec: EnvironmentSpec, device: str, batch: Batch) -> Callable[[], object]:
    updater = algorithm.make_updater(spec, device, 0)
    return lambda: updater.update(updater.transfer(batch))


def _row(name: str, algorithm: OffPolicy, spec: EnvironmentSpec, gpu: str) -> Row:
    batch = _batch(spec, algorithm.batch_size)
    times = interleave({device: _update(algorithm, spec, device, batch) for device in ("cuda", "cpu")}, _REPEATS)
    return faster(f"{name}, batch {algorithm.batch_size}, {gpu}", times["cuda"], "the CPU", times["cpu"])


def measure_gpu() -> list[Row]:
    """Time of one update, with the batch's way to the device, and its speed-up over the CPU's."""
    import torch

    from headrace.algorithms.d4pg.config import D4PG
    from headrace.algorithms.dqn.config import DQN
    from headrace.algorithms.sac.config import SAC

    gpu = torch.cuda.get_device_name()
    vector = EnvironmentSpec((8,), "float32", 4)
    control = EnvironmentSpec((17,), "float32", 6, continuous=True)
    cases: dict[str, tuple[OffPolicy, EnvironmentSpec]] = {
        "DQN 64-64": (DQN(hidden=(64, 64), batch_size=64), vector),
        "DQN 256-256": (DQN(hidden=(256, 256), batch_size=256), vector),
        "DQN 1024-1024": (DQN(hidden=(1024, 1024), batch_size=256), vector),
        "DQN 2048-2048-2048": (DQN(hidden=(2048,) * 3, batch_size=256), vector),
        "DQN of frames 4x84x84": (DQN(batch_size=32, hidden=(512,)), EnvironmentSpec((4, 84, 84), "uint8", 6)),
        "D4PG 256-256": (D4PG(hidden=(256, 256), critic_hidden=(256, 256)), control),
        "D4PG 2048-2048-2048": (D4PG(hidden=(2048,) * 3, critic_hidden=(512, 512, 256)), control),
        "SAC 256-256": (SAC(hidden=(256, 256), critic_hidden=(256, 256)), control),
    }
    return [_row(name, *case, gpu) for name, case in cases.items()]


def main() -> int:
    """Measures, prints, writes results/gpu.csv."""
    require("headrace", "torch")
    warn_if_busy()
    return report("gpu", measure_gpu())


if __name__ == "__main__":
    sys.exit(main())
