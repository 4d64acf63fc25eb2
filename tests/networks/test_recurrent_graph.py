"""The ONNX graph of a recurrent policy, against torch."""

import numpy as np
import pytest
import torch

from headrace.networks import Architecture
from headrace.networks.architecture import Head
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.torch_network import RecurrentNetwork
from headrace.parameters import Policy
from headrace.parameters.memory import Memory

ROWS = 3


def architectures() -> list[Architecture]:
    head = Head("q", 4)
    return [
        Architecture((5,), "float32", "mlp", (8,), head, cell="lstm", memory=6),
        Architecture((5,), "float32", "mlp", (8,), head, cell="gru", memory=6),
        Architecture((5,), "float32", "mlp", (8, 7), head, dueling=True, cell="lstm", memory=6),
        Architecture((5,), "float32", "mlp", (), head, cell="gru", memory=6),
        Architecture((2, 8, 8), "uint8", "grid", (8,), head, cell="lstm", memory=6),
    ]


@pytest.mark.parametrize("architecture", architectures(), ids=lambda each: f"{each.kind}-{each.cell}")
def test_it_computes_what_torch_does_over_several_steps_with_resets(architecture: Architecture) -> None:
    random = np.random.default_rng(0)
    layout = architecture.layout
    vector = layout.initial(random)
    network = RecurrentNetwork(PolicyNetwork(architecture), vector)
    policy = Policy(PolicyGraph(architecture).serialize(layout.views(vector)), 1)
    assert policy.state_size == architecture.state_size == {"lstm": 12, "gru": 6}[architecture.cell]
    ours, theirs = (Memory(advance, policy.state_size) for advance in (policy.advance, network.advance))
    for step in range(12):
        shape = (ROWS, *architecture.input_shape)
        x = random.standard_normal(shape).astype(np.float32)
        if architecture.input_dtype == "uint8":
            x = random.integers(0, 256, shape, np.uint8)
        np.testing.assert_allclose(ours.output(x), theirs.output(x), atol=1e-5)
        np.testing.assert_allclose(ours.state, theirs.state, atol=1e-5)
        assert ours.state.any(1).all()
        ended = np.array([step % 4 == 3, False, step == 6])
        for memory in (ours, theirs):
            memory.reset(ended)
            assert memory.state.any(1).tolist() == (~ended).tolist()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_windows_unroll_as_single_steps_do(cell: str) -> None:
    """Rows with 0, 1 and 3 steps of burn-in, from a state that is not zero."""
    architecture = Architecture((5,), "float32", "mlp", (8,), Head("q", 4), cell=cell, memory=6)  # type: ignore[arg-type]
    random = np.random.default_rng(0)
    network = RecurrentNetwork(PolicyNetwork(architecture), architecture.layout.initial(random))
    burn_in = np.array([0, 1, 3])
    burned, observation = (random.standard_normal((3, steps, 5)).astype(np.float32) for steps in (3, 4))
    state = random.standard_normal((3, architecture.state_size)).astype(np.float32)
    found = network.unroll(torch.from_numpy(burned), burn_in, state, torch.from_numpy(observation))
    for row, count in enumerate(burn_in):
        memory = Memory(network.advance, architecture.state_size)
        memory.state = state[row : row + 1]
        for x in burned[row, :count]:
            memory.output(x[None])
        expected = [memory.output(x[None])[0] for x in observation[row]]
        np.testing.assert_allclose(found[row], expected, atol=1e-6)


def test_parameters_stay_in_the_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, moving a recurrent layer copies its parameters to another buffer."""

    def copy(layer: torch.nn.RNNBase) -> None:
        for parameter in layer.parameters():
            parameter.data = parameter.data.clone()

    monkeypatch.setattr(torch.nn.RNNBase, "flatten_parameters", copy)
    architecture = Architecture((5,), "float32", "mlp", (8,), Head("q", 4), cell="gru", memory=6)
    vector = architecture.layout.initial(np.random.default_rng(0))
    network = RecurrentNetwork(PolicyNetwork(architecture), vector)
    x, state = np.ones((ROWS, 5), np.float32), np.ones((ROWS, 6), np.float32)
    before, _ = network.advance(x, state)
    architecture.layout.views(vector)["memory.weight_hh_l0"][:] += 1
    assert np.abs(network.advance(x, state)[0] - before).max() > 0.01
