"""A learner's update on a GPU against the engine that the CPU has for it; needs a GPU."""

from benchmarks.measure import Row, faster, interleave, make_parser, report, require, run, warn_if_busy
from benchmarks.updates import random_batch, whole_update
from headrace.algorithms.config import OffPolicy
from headrace.types import EnvironmentSpec

_REPEATS = 9


def _row(name: str, algorithm: OffPolicy, spec: EnvironmentSpec, gpu: str) -> Row:
    batch = random_batch(spec, algorithm.batch_size)
    calls = {device: whole_update(algorithm, spec, batch, device=device) for device in ("cuda", "cpu")}
    times = interleave(calls, _REPEATS)
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
    make_parser(__doc__).parse_args()
    require("headrace", "torch")
    import torch

    if not torch.cuda.is_available():
        print("benchmarks: torch finds no GPU here, and gpu needs one")
        return 2
    warn_if_busy()
    return report("gpu", measure_gpu())


if __name__ == "__main__":
    run(main)
