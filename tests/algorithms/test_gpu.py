"""Updates on a GPU give the numbers of those on the CPU; skipped where there is no GPU."""

from typing import Any

import numpy as np
import pytest
import torch

from headrace.algorithms.config import OffPolicy
from headrace.algorithms.registry import ALGORITHMS
from headrace.types import Batch, EnvironmentSpec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

CONTINUOUS = EnvironmentSpec((3,), "float32", 2, continuous=True)
DISCRETE = EnvironmentSpec((3,), "float32", 4)
FRAMES = EnvironmentSpec((4, 42, 42), "uint8", 4)
CASES = [
    *(
        ("dqn", DISCRETE, {"optimizer": kind, "target_update_period": 3})
        for kind in ("sgd", "momentum", "rmsprop", "adagrad", "adam")
    ),
    ("dqn", FRAMES, {"target_update_period": 3}),
    ("dyna-q", DISCRETE, {}),
    *((name, CONTINUOUS, {"target_update_period": 3}) for name in ("d4pg", "td3", "sac")),
    ("crossq", CONTINUOUS, {}),
]


def make_batch(spec: EnvironmentSpec, seed: int, size: int = 64) -> Batch:
    random = np.random.default_rng(seed)
    shape = (size, *spec.input_shape)
    frames = spec.observation_dtype == "uint8"
    draw = (lambda: random.integers(0, 256, shape, np.uint8)) if frames else lambda: random.standard_normal(shape, "f4")
    return Batch(
        observation=draw(),
        next_observation=draw(),
        action=random.uniform(-1, 1, (size, spec.actions)).astype("f4")
        if spec.continuous
        else random.integers(0, spec.actions, size),
        reward=random.standard_normal(size, "f4"),
        discount=np.where(random.random(size) < 0.2, 0, 0.9).astype("f4"),
        weight=random.uniform(0.1, 1, size).astype("f4"),
        probability=np.full(size, 1 / size, "f4"),
        key=np.arange(size, dtype=np.uint64),
        policy_version=np.ones(size, np.uint64),
    )


@pytest.mark.parametrize(("name", "spec", "settings"), CASES)
def test_updates_agree_with_those_on_the_cpu(
    name: str, spec: EnvironmentSpec, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    algorithm = ALGORITHMS.find(name)(hidden=(32,), learning_rate=1e-3, **settings)
    assert isinstance(algorithm, OffPolicy)
    on_cpu, on_gpu = (algorithm.make_updater(spec, device, 0, None, "torch") for device in ("cpu", "cuda"))
    for seed in range(8):
        batch = make_batch(spec, seed)
        expected, found = (each.update(each.transfer(batch)) for each in (on_cpu, on_gpu))
        np.testing.assert_allclose(found.priority, expected.priority, rtol=2e-3, atol=2e-3)
    after, other = on_cpu.state(), on_gpu.state()
    assert after.keys() == other.keys()
    for key in after:
        if not key.endswith("moments"):
            np.testing.assert_allclose(other[key], after[key], rtol=2e-3, atol=2e-3, err_msg=key)
    on_cpu.load(other)  # a checkpoint of one device continues on the other
    on_gpu.load(after)
    observation = make_batch(spec, 9).observation
    np.testing.assert_allclose(on_gpu.act(observation), on_cpu.act(observation), rtol=5e-3, atol=5e-3)
