"""Which engine computes a learner's networks."""

import dataclasses
import sys
from types import SimpleNamespace

import pytest
import torch

from headrace import A3C, DQN
from headrace.algorithms.config import Algorithm, Engine
from headrace.algorithms.engine import MOST_WEIGHTS, choose_engine, limit_torch_threads, torch_threads
from headrace.errors import ConfigError, LaunchError
from headrace.networks import Architecture
from headrace.networks.architecture import Head
from headrace.types import EnvironmentSpec

CPU, GPU = "cpu", "cuda:1"
WIDEST = 1_024
MLP = Architecture((8,), "float32", "mlp", (128, WIDEST), Head("q", 4))
CNN = Architecture((4, 84, 84), "uint8", "nature", (512,), Head("q", 4))


def test_auto_is_native_for_dense_networks_on_the_cpu_that_are_not_too_wide() -> None:
    assert choose_engine("auto", CPU, MLP) == "native"
    assert choose_engine("auto", CPU, dataclasses.replace(MLP, hidden=())) == "native"
    assert choose_engine("auto", GPU, MLP) == "torch"
    assert choose_engine("auto", CPU, CNN) == "torch"
    assert choose_engine("auto", CPU, dataclasses.replace(MLP, hidden=(WIDEST + 1, WIDEST))) == "torch"
    assert choose_engine("auto", CPU, dataclasses.replace(MLP, hidden=(2 * WIDEST,))) == "native"  # 8 and 4 others
    assert choose_engine("auto", CPU, dataclasses.replace(MLP, input_shape=(WIDEST + 1,), hidden=(WIDEST,))) == "torch"
    narrow = dataclasses.replace(MLP, input_shape=(16 * WIDEST,), hidden=(MOST_WEIGHTS // (16 * WIDEST), 8))
    assert choose_engine("auto", CPU, narrow) == "native"
    assert choose_engine("auto", CPU, narrow, (65,)) == "torch"


def test_a_required_engine_is_used() -> None:
    assert choose_engine("torch", CPU, MLP) == "torch"
    assert choose_engine("native", CPU, dataclasses.replace(MLP, hidden=(2 * WIDEST,))) == "native"
    assert choose_engine("torch", GPU, CNN) == "torch"


@pytest.mark.parametrize(
    ("device", "architecture", "fault"), [(GPU, MLP, "device is cuda:1"), (CPU, CNN, "network is nature")]
)
def test_a_native_engine_that_cannot_compute_the_network_is_refused(
    device: str, architecture: Architecture, fault: str
) -> None:
    with pytest.raises(ConfigError, match=f"learner_engine is native and {fault}"):
        choose_engine("native", device, architecture)


@pytest.mark.parametrize(
    ("engine", "device", "architecture", "fault"),
    [
        ("torch", CPU, MLP, "learner_engine is torch and"),
        ("auto", CPU, CNN, "learner_engine is auto and network is nature"),
        ("auto", CPU, dataclasses.replace(MLP, hidden=(WIDEST, WIDEST + 1)), "the largest layer has 1,049,600 weights"),
    ],
)
def test_the_torch_engine_without_torch_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, device: str, architecture: Architecture, fault: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(ConfigError, match=fault) as caught:
        choose_engine(engine, device, architecture)
    assert "pip install 'headrace[torch]'" in str(caught.value)
    assert choose_engine("auto", CPU, MLP) == "native"


def test_torch_s_threads_are_limited_where_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=counts.append, get_num_threads=lambda: 2))
    limit_torch_threads(2)
    with pytest.raises(LaunchError, match="computes with 2 threads; 1 are required"):
        limit_torch_threads(1)
    assert counts == [2, 1]
    monkeypatch.delitem(sys.modules, "torch")
    limit_torch_threads(1)


def test_torch_s_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("algorithm", [A3C(), DQN()])
def test_algorithms_refuse_the_native_engine_for_a_cnn(algorithm: Algorithm) -> None:
    spec = EnvironmentSpec((84, 84), "uint8", 4, stack=4)
    with pytest.raises(ConfigError, match="learner_engine is native and network is nature"):
        algorithm.make_updater(spec, CPU, 0, engine="native")
