"""Parameters in one vector: views and their inverse, and initial values against torch's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from headrace.networks import Architecture
from headrace.networks.actor_critic import ActorCritic
from headrace.networks.architecture import Head
from headrace.networks.base import Description
from headrace.networks.critic import Critic
from headrace.networks.layout import Layout, Parameter, affine
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.twin_critics import TwinCritics

SMALL = Layout((Parameter("a", (2, 3), -1.0, 1.0), Parameter("b", (2,), 5.0, 5.0)))
MLP = Architecture((300,), "float32", "mlp", (400, 200), Head("q", 6))
DUELING = Architecture((300,), "float32", "mlp", (400, 200), Head("q", 6), dueling=True)
CNN = Architecture((4, 84, 84), "uint8", "nature", (64,), Head("q", 6))
NETWORKS: dict[str, Callable[[], Description]] = {
    "policy": lambda: PolicyNetwork(MLP),
    "dueling policy": lambda: PolicyNetwork(DUELING),
    "cnn": lambda: PolicyNetwork(CNN),
    "critic": lambda: Critic(MLP, 2, (400, 200), 51),
    "twin critics": lambda: TwinCritics(MLP, 2, (400, 200)),
    "policy and value": lambda: ActorCritic(MLP, "shared", 2),
    "policy and value of a cnn": lambda: ActorCritic(CNN, "separate"),
}


def test_views_share_the_vector_s_memory() -> None:
    for vector in (np.arange(8, dtype=np.float32), torch.arange(8.0)):
        views = SMALL.views(vector)
        assert {name: view.tolist() for name, view in views.items()} == {"a": [[0, 1, 2], [3, 4, 5]], "b": [6, 7]}
        views["b"][0] = 9
        assert vector[6] == 9


def test_joined_values_are_the_vector() -> None:
    vector = np.arange(8, dtype=np.float32)
    views = SMALL.views(vector)
    assert (SMALL.join({"b": views["b"], "a": views["a"]}) == vector).all()


@pytest.mark.parametrize("change", [{"b": None}, {"b": np.zeros((2, 1))}, {"c": np.zeros(2)}])
def test_other_names_and_shapes_are_not_joined(change: dict[str, np.ndarray | None]) -> None:
    values = SMALL.views(np.zeros(8, np.float32)) | change
    with pytest.raises(ValueError, match="are required"):
        SMALL.join({name: value for name, value in values.items() if value is not None})


def test_initial_values_are_in_their_intervals_and_depend_on_the_seed_only() -> None:
    first, again, other = (SMALL.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first[:6] != other[:6]).all()
    assert (np.abs(first[:6]) < 1).all()
    assert (first[6:] == 5).all()


@pytest.mark.parametrize(("shape", "inputs"), [((4, 9), 9), ((4, 3, 2, 2), 12)])
def test_bounds_of_a_layer(shape: tuple[int, ...], inputs: int) -> None:
    weight, bias = affine("x", shape)
    assert (weight.name, weight.shape, bias.name, bias.shape) == ("x.weight", shape, "x.bias", (4,))
    assert weight[2:] == bias[2:] == pytest.approx((-(inputs**-0.5), inputs**-0.5))


@pytest.mark.parametrize("name", NETWORKS)
def test_names_and_shapes_are_those_of_the_torch_module(name: str) -> None:
    network = NETWORKS[name]()
    module = network.build_torch()
    assert network.layout.size == sum(parameter.numel() for parameter in module.parameters())
    assert {each.name: each.shape for each in network.layout.parameters} == {
        name: tuple(parameter.shape) for name, parameter in module.named_parameters()
    }


@pytest.mark.parametrize("name", ["policy", "dueling policy", "cnn", "critic"])
def test_initial_values_fill_the_same_intervals_as_torch_s(name: str) -> None:
    """Torch's layers are drawn by its default; the largest of many values are near the bounds."""
    network = NETWORKS[name]()
    torch.manual_seed(0)
    theirs = {each: parameter.detach().numpy() for each, parameter in network.build_torch().named_parameters()}
    ours = network.layout.views(network.layout.initial(np.random.default_rng(0)))
    for each, _, low, high in network.layout.parameters:
        for value in (ours[each], theirs[each]):
            assert low - 1e-7 <= value.min() <= value.max() <= high + 1e-7
            if value.size > 1000:
                assert value.max() - value.min() > 0.99 * (high - low)
                assert value.std() == pytest.approx((high - low) / 12**0.5, rel=0.05)


def test_the_twins_start_with_different_values() -> None:
    network = TwinCritics(MLP, 2, (400,))
    views = network.layout.views(network.layout.initial(np.random.default_rng(0)))
    assert (views["weights.0"][0] != views["weights.0"][1]).mean() > 0.99
    for index, inputs in enumerate((302, 400)):
        for part in ("weights", "biases"):
            assert 0 < np.abs(views[f"{part}.{index}"]).max() <= inputs**-0.5
