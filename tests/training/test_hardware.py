"""The choice of a device: torch is asked only where there may be a GPU."""

import sys
from types import SimpleNamespace

import pytest

from headrace.clock import World, inhabit
from headrace.errors import ConfigError
from headrace.training import hardware
from headrace.training.hardware import choose_device, describe_machine


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
