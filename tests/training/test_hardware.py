"""The choice of a device: torch is asked only where there may be a GPU, and small networks stay on the CPU."""

import dataclasses
import sys
from types import SimpleNamespace

import pytest

from headrace import A3C, D4PG, DQN, R2D2, SAC, TD3, CrossQ
from headrace.algorithms.config import Algorithm
from headrace.clock import World, inhabit
from headrace.errors import ConfigError
from headrace.settings import RunConfig
from headrace.topologies.apex import Apex
from headrace.topologies.workers import Hogwild
from headrace.training import assembly, hardware
from headrace.training.assembly import find_device
from headrace.training.hardware import choose_device, describe_machine
from headrace.types import EnvironmentSpec


def test_the_cpu_is_chosen_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would fail
    monkeypatch.setattr(hardware, "_DRIVER_FILES", ("no such device",))
    assert choose_device("cpu") == choose_device("auto") == "cpu"
    assert describe_machine()["gpu"] is None


@pytest.mark.parametrize(("available", "device"), [(True, "cuda"), (False, "cpu")])
def test_auto_asks_torch_where_there_is_a_driver(monkeypatch: pytest.MonkeyPatch, available: bool, device: str) -> None:
    cuda = SimpleNamespace(is_available=lambda: available, get_device_name=lambda: "fast")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(hardware, "_DRIVER_FILES", ("null",))  # a file that every machine has
    assert choose_device("auto") == device
    world = World()
    world.cores = 2  # those of a simulated run, which must not depend on the machine
    with inhabit(world):
        assert (choose_device("auto"), choose_device("cpu")) == ("cpu", "cpu")
    assert describe_machine()["gpu"] == ("fast" if available else None)


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:99"])
def test_devices_that_are_not_available_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^device is {name}; "):
        choose_device(name)


def test_without_torch_auto_is_the_cpu_and_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(hardware, "_DRIVER_FILES", ("null",))
    assert choose_device("auto") == "cpu"
    with pytest.raises(ConfigError, match=r"^device is cuda, .*pip install 'headrace\[torch\]'"):
        choose_device("cuda")


def test_the_cpu_has_one_name() -> None:
    assert choose_device("cpu:0") == "cpu"


VECTOR = EnvironmentSpec((4,), "float32", 2)
CONTROL = EnvironmentSpec((4,), "float32", 2, continuous=True)
FRAMES = EnvironmentSpec((4, 84, 84), "uint8", 2)
BOARD = EnvironmentSpec((7, 10, 10), "uint8", 2)


@pytest.mark.parametrize(
    ("algorithm", "spec", "device"),
    [
        (DQN(hidden=(64, 511)), VECTOR, "cpu"),
        (DQN(hidden=(64, 512)), VECTOR, "cuda"),
        (DQN(), FRAMES, "cuda"),
        (DQN(network="mlp", hidden=(128, 128)), BOARD, "cpu"),  # 700 inputs are no layer
        (DQN(network="minatar", hidden=(128,)), BOARD, "cuda"),
        (DQN(network="no_module:build"), VECTOR, "cuda"),  # which is not built for that
        (D4PG(hidden=(64,), critic_hidden=(256,)), CONTROL, "cpu"),
        (D4PG(hidden=(64,), critic_hidden=(512,)), CONTROL, "cuda"),
        (TD3(hidden=(64,), critic_hidden=(512,)), CONTROL, "cuda"),
        (SAC(hidden=(64,), critic_hidden=(512,)), CONTROL, "cuda"),
        (CrossQ(hidden=(64,), critic_hidden=(512,)), CONTROL, "cuda"),
        (R2D2(hidden=(64,), memory=8), VECTOR, "cuda"),
    ],
)
def test_auto_is_a_gpu_for_networks_that_suit_it(
    algorithm: Algorithm, spec: EnvironmentSpec, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "choose_device", lambda name: "cpu" if name == "cpu" else "cuda")
    config = RunConfig("CartPole-v1", algorithm, Apex())
    assert find_device(config, spec) == device
    assert find_device(dataclasses.replace(config, device="cuda"), spec) == "cuda"
    assert find_device(dataclasses.replace(config, device="cpu"), spec) == "cpu"
    assert find_device(dataclasses.replace(config, learner_engine="native"), spec) == "cpu"


def test_workers_learn_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "choose_device", lambda name: "cpu" if name == "cpu" else "cuda")
    config = RunConfig("CartPole-v1", A3C(hidden=(512,)), Hogwild(workers=2))
    assert find_device(config, VECTOR) == "cpu"
    with pytest.raises(ConfigError, match="device is cuda and topology is hogwild"):
        find_device(dataclasses.replace(config, device="cuda"), VECTOR)
