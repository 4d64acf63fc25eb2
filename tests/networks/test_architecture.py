"""Limits on the size of a network, and its number of parameters."""

import numpy as np
import pytest

from headrace.environments import describe
from headrace.errors import ConfigError
from headrace.networks import Architecture, architecture
from headrace.networks.architecture import Head
from headrace.networks.critic import Critic
from headrace.networks.torch_modules import PolicyModule
from headrace.networks.world_model import WorldModel
from headrace.types import EnvironmentSpec

VECTOR = EnvironmentSpec((4,), "float32", 2)
FRAMES = EnvironmentSpec((84, 84), "uint8", 4, stack=4)


@pytest.mark.parametrize(
    ("spec", "hidden", "dueling"), [(VECTOR, (), False), (VECTOR, (5, 6), True), (FRAMES, (512,), False)]
)
def test_parameters_are_counted(spec: EnvironmentSpec, hidden: tuple[int, ...], dueling: bool) -> None:
    described = Architecture.of(spec, "auto", hidden, dueling)
    assert described.layout.size == sum(each.numel() for each in PolicyModule(described).parameters())


def test_a_network_too_large_for_a_graph_is_refused_before_creation() -> None:
    with pytest.raises(ConfigError, match=r"^hidden is \(65536, 65536\); it must be .* at most 500,000,000 parameters"):
        Architecture.of(VECTOR, "mlp", (65_536, 65_536))
    record = Architecture.of(VECTOR, "mlp", (3,)).to_record()
    with pytest.raises(ConfigError, match=r"^hidden is"):
        Architecture.from_record(record | {"hidden": [65_536, 65_536]})


def test_a_network_too_large_for_memory_is_refused_before_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Architecture.of(VECTOR, "mlp", (3,))
    monkeypatch.setattr(architecture, "total_memory_bytes", lambda: 1_000_000)
    with pytest.raises(ConfigError, match=r"^hidden is \(10000,\); .* fit this machine's memory, 0.0 GB"):
        Architecture.of(VECTOR, "mlp", (10_000,))
    with pytest.raises(ConfigError, match=r"^critic_hidden is \(10000,\)"):
        Critic(policy, 2, (10_000,), 51)
    with pytest.raises(ConfigError, match=r"^model_hidden is \(10000,\)"):
        WorldModel(4, 2, (10_000,), 5, np.random.default_rng(0))
    assert Critic(policy, 2, (7, 8), 51).layout.size < 10_000


def test_a_masked_head_has_an_output_for_each_action_of_the_mask() -> None:
    """With more of them the mask would cover other outputs than those of its actions."""
    spec = describe("Taxi-v4")
    assert spec.masked
    with pytest.raises(ConfigError, match="head is masked, with 12 outputs; it must be one with 6, as the mask"):
        Architecture.of(spec, "mlp", (8,), head=Head("z", 12, masked=True))
