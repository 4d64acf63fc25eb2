"""Actor inference against torch eager: one thread, arrays in and out, for three networks and two batch sizes."""

import sys
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from benchmarks.measure import Row, faster, interleave, report, require
from headrace.types import Array, EnvironmentSpec

_NETWORKS = {
    "mlp 64x64": (EnvironmentSpec((8,), "float32", actions=4), (64, 64)),
    "mlp 256x256": (EnvironmentSpec((8,), "float32", actions=4), (256, 256)),
    "nature cnn": (EnvironmentSpec((84, 84), "uint8", actions=6, stack=4), (512,)),
}
_BATCHES = (1, 8)


def _build(spec: EnvironmentSpec, hidden: tuple[int, ...]) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The actor's policy and the same network in torch, both from arrays to arrays."""
    import torch

    from headrace.networks import Architecture, PolicyGraph
    from headrace.networks.q_network import QNetwork
    from headrace.parameters import Policy

    architecture = Architecture.of(spec, "auto", hidden, duelling=False)
    network = QNetwork(architecture).eval()
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    policy = Policy(PolicyGraph(architecture).serialize(weights), version=1)

    def eager(observation: Array) -> Array:
        with torch.inference_mode():
            values: Array = network(torch.from_numpy(observation)).numpy()
        return values

    return policy.q, eager


def measure_inference() -> list[Row]:
    """Time of one inference, and how many times faster than torch it is."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    rows = []
    for name, (spec, hidden) in _NETWORKS.items():
        policy, eager = _build(spec, hidden)
        for batch in _BATCHES:
            shape = (batch, *spec.input_shape)
            observation = rng.integers(0, 256, shape).astype(spec.observation_dtype)
            if spec.observation_dtype == "float32":
                observation = rng.standard_normal(shape, np.float32)
            np.testing.assert_allclose(policy(observation), eager(observation), atol=1e-4)
            calls = {"ours": lambda x=observation, q=policy: q(x), "torch": lambda x=observation, q=eager: q(x)}
            times = interleave(calls)
            rows.append(
                faster(f"{name}, batch {batch}", times["ours"], f"torch {version('torch')} eager", times["torch"])
            )
    return rows


def main() -> int:
    """Measures, prints, writes results/inference.csv."""
    require("headrace", "onnxruntime", "torch")
    return report("inference", measure_inference())


if __name__ == "__main__":
    sys.exit(main())
