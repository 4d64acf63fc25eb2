"""Actor inference against torch eager and ONNX Runtime in fp32: one thread, arrays in and out.

Each row compares a precision of the actor's policy with the faster of torch and the policy in fp32.
"""

import functools
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from benchmarks.measure import Row, faster, interleave, make_parser, report, require, run
from headrace.types import Array, EnvironmentSpec

_NETWORKS = {
    "mlp 64x64": (EnvironmentSpec((8,), "float32", actions=4), (64, 64)),
    "mlp 256x256": (EnvironmentSpec((8,), "float32", actions=4), (256, 256)),
    "mlp 3x2048": (EnvironmentSpec((17,), "float32", actions=6, continuous=True), (2048, 2048, 2048)),
    "nature cnn": (EnvironmentSpec((84, 84), "uint8", actions=6, stack=4), (512,)),
}
_BATCHES = (1, 8)
_REQUIRED = {("mlp 3x2048", "int8", 1): 3.5}
_TOLERANCE = {"fp32": 1e-5, "fp16": 1e-3, "int8": 1e-2}

_Call = Callable[[Array], Array]


def _build(spec: EnvironmentSpec, hidden: tuple[int, ...]) -> dict[str, _Call]:
    """Calls of the actor's policy in each precision and of the same network in torch, from arrays to arrays."""
    import torch

    from headrace.networks import Architecture
    from headrace.networks.policy_graph import PolicyGraph
    from headrace.networks.torch_modules import PolicyModule
    from headrace.parameters import Policy

    architecture = Architecture.of(spec, "auto", hidden)
    network = PolicyModule(architecture).eval()
    weights = {name: value.numpy() for name, value in network.state_dict().items()}

    def eager(observation: Array) -> Array:
        with torch.inference_mode():
            values: Array = network(torch.from_numpy(observation)).numpy()
        return values

    calls: dict[str, _Call] = {"torch": eager}
    for precision in ("fp32", "fp16", "int8"):
        calls[precision] = Policy(PolicyGraph(architecture, precision).serialize(weights), version=1).output
    return calls


def _measure(name: str, calls: dict[str, _Call], observation: Array) -> list[Row]:
    for precision, tolerance in _TOLERANCE.items():
        np.testing.assert_allclose(calls[precision](observation), calls["torch"](observation), atol=tolerance)
    times = interleave({key: functools.partial(call, observation) for key, call in calls.items()})
    batch = len(observation)
    torch_name = f"torch {version('torch')} eager"
    rows = [faster(f"{name}, batch {batch}, fp32", times["fp32"], torch_name, times["torch"])]
    peer = min("torch", "fp32", key=times.__getitem__)
    peer_name = torch_name if peer == "torch" else f"ONNX Runtime {version('onnxruntime')} fp32"
    for precision in ("fp16", "int8"):
        required = _REQUIRED.get((name, precision, batch))
        row = f"{name}, batch {batch}, {precision}"
        rows.append(faster(row, times[precision], peer_name, times[peer], required))
    return rows


def measure_inference() -> list[Row]:
    """Time of one inference and its speed-up over the peer."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    rows = []
    for name, (spec, hidden) in _NETWORKS.items():
        calls = _build(spec, hidden)
        for batch in _BATCHES:
            shape = (batch, *spec.input_shape)
            image = spec.observation_dtype == "uint8"
            observation = (
                random.integers(0, 256, shape, np.uint8) if image else random.standard_normal(shape, np.float32)
            )
            rows += _measure(name, calls, observation)
    return rows


def main() -> int:
    """Measures, prints, writes results/inference.csv."""
    make_parser(__doc__).parse_args()
    require("headrace", "onnxruntime", "torch")
    return report("inference", measure_inference())


if __name__ == "__main__":
    run(main)
