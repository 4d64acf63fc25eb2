"""Users' networks: the graph is the module in each precision, parameters are one vector, faults are one line."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import A3C, D4PG, DQN, SAC, TD3
from headrace.errors import ConfigError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.precision import Precision
from headrace.networks.records import ILLEGAL, draw_records, split
from headrace.networks.torch_network import TorchNetwork
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder, PolicyEncoder
from headrace.topologies.apex import Apex
from headrace.topologies.apex.precision import choose_precision
from headrace.types import Batch, EnvironmentSpec, Part

VECTOR = EnvironmentSpec((6,), "float32", 3)
IMAGE = EnvironmentSpec((8, 8), "uint8", 3)
CONTINUOUS = EnvironmentSpec((6,), "float32", 2, continuous=True)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


def own(name: str) -> str:
    return f"own_networks:{name}"


def observations(spec: EnvironmentSpec, count: int = 5) -> np.ndarray:
    random, shape = np.random.default_rng(1), (count, *spec.input_shape)
    if spec.observation_dtype == "uint8":
        return random.integers(0, 256, shape, np.uint8)
    return random.standard_normal(shape).astype(spec.observation_dtype)


def batch(spec: EnvironmentSpec) -> Batch:
    random, count = np.random.default_rng(2), 5
    action = random.uniform(-1, 1, (count, spec.actions)).astype(np.float32)
    ones = np.ones(count, np.float32)
    zeros = np.zeros(count, np.uint64)
    return Batch(
        observations(spec),
        observations(spec),
        action if spec.continuous else random.integers(0, spec.actions, count),
        random.standard_normal(count).astype(np.float32),
        0.9 * ones,
        ones,
        ones,
        zeros,
        zeros,
    )


@pytest.mark.parametrize("name", ["wide", "image", "fixed"])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_the_graph_has_the_module_s_outputs(name: str, precision: Precision) -> None:
    spec = IMAGE if name == "image" else VECTOR
    updater = DQN(network=own(name)).make_updater(spec, "cpu", 0)
    record = json.loads(json.dumps(updater.architecture.to_record()))  # as a quantizer gets it
    graph = PolicyGraph(Architecture.from_record(record), precision)
    inputs = observations(spec)
    tolerance = {"fp32": 1e-5, "fp16": 1e-2, "int8": 5e-2}[precision]
    found = Policy(graph.serialize(updater.weights()), 1).output(inputs)
    np.testing.assert_allclose(found, updater.act(inputs), atol=tolerance)
    assert graph.integer == (("module.inner.3.weight",) if (precision, name) == ("int8", "wide") else ())


def test_parts_are_a_dict_and_masks_exclude_actions() -> None:
    parts = (
        Part("observation.cell", "int64", (), 0, (4,), (1,)),
        Part("observation.goal", "float32", (2,), 8),
        Part("action_mask", "int8", (3,), 16),
    )
    spec = EnvironmentSpec((24,), "uint8", 3, parts=parts, masked=True)
    updater = DQN(network=own("embedded")).make_updater(spec, "cpu", 0)
    records = draw_records(np.random.default_rng(0), 6, 24, parts)
    expected = updater.act(records)
    np.testing.assert_array_equal(expected == ILLEGAL, records[:, 16:19] == 0)
    values = split(records, parts)
    weights = updater.weights()
    features = np.concatenate(
        (weights["module.cells.weight"][values["observation.cell"]], values["observation.goal"]), 1
    )
    by_hand = features @ weights["module.head.weight"].T + weights["module.head.bias"]
    np.testing.assert_allclose(expected[expected != ILLEGAL], by_hand[expected != ILLEGAL], rtol=1e-4)
    found = Policy(PolicyGraph(updater.architecture).serialize(weights), 1).output(records)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_packed_parameters_become_the_graph() -> None:
    updater = DQN(network=own("wide")).make_updater(VECTOR, "cpu", 0)
    encoder, inputs = PolicyEncoder(updater.architecture, "fp32", 12), observations(VECTOR)
    graph = PolicyDecoder("fp32", 12).decode(encoder.encode(updater.weights()))
    np.testing.assert_allclose(Policy(graph, 1).output(inputs), updater.act(inputs), atol=0.01)


@pytest.mark.parametrize(("kind", "spec"), [(DQN, VECTOR), (D4PG, CONTINUOUS), (SAC, CONTINUOUS), (TD3, CONTINUOUS)])
def test_the_flat_vector_is_trained(kind: Any, spec: EnvironmentSpec) -> None:
    updater = kind(network=own("fixed"), learning_rate=0.1).make_updater(spec, "cpu", 0)
    before = updater.weights()
    for _ in range(2):  # TD3 updates its policy with every second batch
        updater.update(updater.transfer(batch(spec)))
    after = updater.weights()
    changed = {name: bool(np.any(before[name] != after[name])) for name in after}
    assert changed == {name: not name.startswith("module.0") for name in after}
    found = Policy(PolicyGraph(updater.architecture).serialize(after), 1).output(observations(spec))
    np.testing.assert_allclose(found, updater.act(observations(spec)), atol=1e-5)
    again = kind(network=own("fixed")).make_updater(spec, "cpu", 5)
    again.load(updater.state())
    np.testing.assert_array_equal(again.act(observations(spec)), updater.act(observations(spec)))


def test_initial_values_are_the_module_s_and_depend_on_the_seed() -> None:
    def weights(seed: int) -> dict[str, np.ndarray]:
        return DQN(network=own("wide")).make_updater(VECTOR, "cpu", seed).weights()

    first, again, other = weights(0), weights(0), weights(1)
    assert np.all(first["module.inner.1.weight"] == 1)  # of the normalization
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
    assert np.any(first["module.inner.0.weight"] != other["module.inner.0.weight"])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("too_wide", r"its output for 5 observations is torch.float32 \[5, 4\]; it must be torch.float32 \[5, 3\]"),
        ("dropout", "training mode differs"),
        ("doubles", r"parameter 0.weight is torch.float64; float32 is required"),
        ("tied", r"parameters 0.weight and 1.weight are the same"),
        ("empty", "has no parameters"),
        ("frozen", "requires_grad is False for every parameter"),
        ("logarithm", "its output has values that are not finite"),
        ("noisy", "two outputs for the same observations differ"),
        ("raises", r"raised ValueError: \(6,\) and 3 are too small"),
        ("no_module", "returned int; a torch.nn.Module is required"),
        ("inverse", "ONNX can't express the module: .*pinv"),
        ("pair", "its output is a tuple; one tensor is required"),
        ("lazy", "parameter 0.weight has no shape yet"),
        ("clamping", "changes its input in place"),
        ("counting", "its ONNX graph and torch differ by"),
        ("number", 'has no function "number"'),
        ("none", 'has no function "none"'),
    ],
)
def test_what_is_wrong_with_a_network_is_named(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"network is {own(name)}.*{problem}") as error:
        DQN(network=own(name)).make_updater(VECTOR, "cpu", 0)
    assert "\n" not in str(error.value)


def test_a_learner_s_module_is_in_training_mode() -> None:
    """On a GPU a recurrent layer has no gradient otherwise."""
    network = PolicyNetwork(DQN(network=own("wide")).make_updater(VECTOR, "cpu", 0).architecture)
    module = TorchNetwork(network, network.layout.initial(np.random.default_rng(0)))._module
    assert all(part.training for part in module.modules())


def test_a_missing_module_is_named() -> None:
    with pytest.raises(ConfigError, match=r'network is nothing.here:build: module "nothing.here" can\'t be imported'):
        DQN(network="nothing.here:build").make_updater(VECTOR, "cpu", 0)


@pytest.mark.parametrize("network", ["resnet", "a:", ":b", "a b:c", "a:b:c", ""])
def test_a_name_that_is_no_function_s_is_refused(network: str) -> None:
    said = network or "''"
    with pytest.raises(ConfigError, match=f"network is {said}; it must be one of auto, mlp, .*, or package.module"):
        DQN(network=network)


def test_what_can_t_use_it_says_so() -> None:
    with pytest.raises(ConfigError, match=r"learner_engine is native and network is .*wide"):
        DQN(network=own("wide")).make_updater(VECTOR, "cpu", 0, engine="native")
    with pytest.raises(ConfigError, match="dueling is True; it must be false with network"):
        DQN(network=own("wide"), dueling=True).make_updater(VECTOR, "cpu", 0)
    with pytest.raises(ConfigError, match=r"network is .*wide; it must be one of .* with a3c"):
        A3C(network=own("wide"))


def test_without_torch_the_requirement_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"network is .*wide, which needs torch .*headrace\[torch\]"):
        DQN(network=own("wide")).make_updater(VECTOR, "cpu", 0)


def test_int8_says_which_layers_it_computes() -> None:
    for name, said in (("wide", "computes inner.3 of"), ("fixed", "computes no layer of")):
        architecture = DQN(network=own(name)).make_updater(VECTOR, "cpu", 0).architecture
        assert said in choose_precision(Apex(precision="int8"), architecture)[1]
