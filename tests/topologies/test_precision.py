"""Precision: chosen by measurement if it is auto; a warning if it costs time."""

import pytest

from headrace.networks import Architecture
from headrace.topologies.apex import Apex
from headrace.topologies.apex import precision as module
from headrace.topologies.apex.precision import choose_precision
from headrace.topologies.serial import Serial
from headrace.types import EnvironmentSpec

ARCHITECTURE = Architecture.of(EnvironmentSpec((4,), "float32", actions=2), "mlp", (8,))


@pytest.fixture
def _times(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"fp32": 2e-3, "fp16": 3e-3, "int8": 1e-3}
    monkeypatch.setattr(module, "measure_precisions", lambda architecture, batch: times)


@pytest.mark.usefixtures("_times")
def test_auto_chooses_the_fastest_and_notes_it() -> None:
    topology, note = choose_precision(Apex(envs_per_actor=4, precision="auto"), ARCHITECTURE)
    assert topology == Apex(envs_per_actor=4, precision="int8")
    assert note == ("precision int8 is the fastest for 4 observations on this machine: fp32 2 ms, fp16 3 ms, int8 1 ms")


@pytest.mark.usefixtures("_times")
@pytest.mark.parametrize(("bits", "chosen"), [(8, "int8"), (9, "fp32"), (31, "fp32"), (32, "int8")])
def test_auto_excludes_int8_if_incompatible_with_the_bits(bits: int, chosen: str) -> None:
    topology, note = choose_precision(Apex(precision="auto", communication_bits=bits), ARCHITECTURE)
    assert topology == Apex(precision=chosen, communication_bits=bits)  # type: ignore[arg-type]
    said = f"int8 1 ms; int8 is left out because it is incompatible with communication_bits {bits}"
    assert note.endswith(said) is (chosen == "fp32")


@pytest.mark.usefixtures("_times")
def test_a_precision_that_is_slower_is_kept_with_a_warning() -> None:
    asked = Apex(envs_per_actor=4, precision="fp16")
    topology, note = choose_precision(asked, ARCHITECTURE)
    assert topology == asked
    assert note.startswith("warning: precision fp16 is slower than fp32 for 4 observations on this machine: ")


@pytest.mark.usefixtures("_times")
def test_a_faster_precision_gives_no_warning() -> None:
    asked = Apex(precision="int8")
    assert choose_precision(asked, ARCHITECTURE) == (asked, "")


@pytest.mark.parametrize("topology", [Serial(), Apex()])
def test_nothing_is_measured_in_full_precision(topology: Serial | Apex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_precisions", None)
    assert topology.resolved(ARCHITECTURE) == (topology, "")
