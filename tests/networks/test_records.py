"""Networks over records: the three engines agree, and no masked action is taken."""

import numpy as np
import pytest
from gymnasium import spaces

from headrace.algorithms.dqn import DQN
from headrace.algorithms.engine import open_network
from headrace.algorithms.exploration import EpsilonGreedy
from headrace.environments.records import Packer
from headrace.networks import Architecture
from headrace.networks.critic import Critic
from headrace.networks.graph_layers import LAYERS
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.records import ILLEGAL, draw_records, expand, split
from headrace.networks.twin_critics import TwinCritics
from headrace.parameters import Policy
from headrace.types import EnvironmentSpec, Part

SPACES: dict[str, spaces.Space] = {
    "cell": spaces.Discrete(90, start=-3),
    "cards": spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.MultiBinary(2)]),
    "goal": spaces.Dict(a=spaces.Box(-1, 1, (3,), np.float64), scale=spaces.Box(0, 255, (70,), np.uint8)),
    "image": spaces.Dict(image=spaces.Box(0, 255, (7, 9, 3), np.uint8), way=spaces.MultiDiscrete([4, 3], start=[2, 0])),
    "images": spaces.Dict(a=spaces.Box(0, 255, (3, 6, 5), np.uint8), b=spaces.Box(0, 255, (9, 9, 2), np.uint8)),
    "images of sizes": spaces.Dict(
        camera=spaces.Box(0, 255, (40, 36, 3), np.uint8),
        items=spaces.Box(0, 255, (9, 2), np.uint8),
        map=spaces.Box(0, 255, (6, 7, 2), np.uint8),
    ),
}


def spec_of(name: str, masked: bool = False, continuous: bool = False) -> EnvironmentSpec:
    packer = Packer(SPACES[name], np.ones(5, np.int8) if masked else None, 0 if continuous else 5)
    return EnvironmentSpec(
        (packer.record_bytes,), "uint8", 5, continuous=continuous, parts=packer.parts, masked=packer.masked
    )


def records(spec: EnvironmentSpec, count: int) -> np.ndarray:
    return draw_records(np.random.default_rng(0), count, spec.observation_shape[0], spec.parts)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_torch_native_and_graph_agree(name: str, dueling: bool, masked: bool) -> None:
    spec = spec_of(name, masked)
    architecture = Architecture.of(spec, "auto", (64, 64), dueling)
    assert bool(architecture.convolutions) == ("image" in name)
    network = PolicyNetwork(architecture)
    vector = network.layout.initial(np.random.default_rng(1))
    observation = records(spec, 33)
    module = open_network("torch", network, vector)
    expected = module.output(module.place(observation))
    policy = Policy(PolicyGraph(architecture).serialize(network.layout.views(vector)), 1)
    np.testing.assert_allclose(policy.output(observation), expected, atol=1e-5)
    if not architecture.convolutions:
        native = open_network("native", network, vector)
        np.testing.assert_allclose(native.output(native.place(observation)), expected, atol=1e-5)
    if masked:
        np.testing.assert_array_equal(expected == ILLEGAL, split(observation, spec.parts)["action_mask"] == 0)
    else:
        assert (expected != ILLEGAL).all()


def test_each_image_has_the_network_that_suits_its_size() -> None:
    """Small ones next to a camera neither lose its CNN nor become boards of its size."""
    camera, items, board = Architecture.of(spec_of("images of sizes"), "auto", (8,)).encoders
    assert [layer.kernel for layer in camera.convolutions] == [8, 4, 3]
    assert [layer.kernel for layer in board.convolutions] == [3, 3]
    assert (items.convolutions, items.features) == ((), 18)
    for kind in ("nature", "grid"):
        architecture = Architecture.of(spec_of("images of sizes"), kind, (8,))
        assert [bool(each.convolutions) for each in architecture.encoders] == [True, False, True]


@pytest.mark.parametrize("precision", LAYERS)
@pytest.mark.parametrize("name", SPACES)
def test_every_precision(name: str, precision: str) -> None:
    """int8's error is small, and masks stay exact."""
    spec = spec_of(name, masked=True)
    architecture = Architecture.of(spec, "auto", (64, 64))
    vector = architecture.layout.initial(np.random.default_rng(1))
    observation = records(spec, 33)
    weights = architecture.layout.views(vector)
    full, less = (
        Policy(PolicyGraph(architecture, each).serialize(weights), 1).output(observation)
        for each in ("fp32", precision)
    )
    np.testing.assert_array_equal(full == ILLEGAL, less == ILLEGAL)
    np.testing.assert_allclose(less, full, atol=0.05)


@pytest.mark.parametrize("kind", ["critic", "twin"])
def test_critics_of_both_engines_agree(kind: str) -> None:
    spec = spec_of("goal", continuous=True)
    architecture = Architecture.of(spec, "auto", (8,))
    critic = Critic(architecture, 5, (16,), 7) if kind == "critic" else TwinCritics(architecture, 5, (16,))
    vector = critic.layout.initial(np.random.default_rng(0))
    observation, action = records(spec, 6), np.random.default_rng(1).random((6, 5), np.float32)
    outputs = []
    for engine in ("torch", "native"):
        network = open_network(engine, critic, vector)
        outputs.append(network.output(network.place(observation), action))
    np.testing.assert_allclose(*outputs, atol=1e-5)


def test_features_worked_by_hand() -> None:
    parts = (
        Part("a", "int64", (2,), 0, (2, 3), (0, 5)),
        Part("b", "float32", (), 16),
        Part("c", "uint8", (2,), 20),
        Part("d", "int8", (1,), 22),
    )
    record = np.zeros((1, 24), np.uint8)
    record[0, :16].view(np.int64)[:] = 1, 7
    record[0, 16:20].view(np.float32)[:] = -2.5
    record[0, 20:23] = 255, 51, 1
    np.testing.assert_allclose(expand(record, parts), [[0, 1, 0, 0, 1, -2.5, 1, 0.2, 1]], rtol=1e-6)


def test_a_gradient_passes_masks_in_both_engines() -> None:
    """The engines' updates agree, and Q of illegal actions enters neither target nor gradient."""
    spec = spec_of("cards", masked=True)
    observation = records(spec, 16)
    legal = split(observation, spec.parts)["action_mask"]
    results = []
    for engine in ("torch", "native"):
        updater = DQN(hidden=(16,), loss="squared").make_updater(spec, "cpu", 0, engine=engine)
        fields = (
            *map(updater._policy.place, (observation, observation[::-1].copy())),
            legal.argmax(1),
            np.ones(16, np.float32),
            np.full(16, 0.9, np.float32),
            np.ones(16, np.float32),
        )
        update = updater.update(fields)
        assert update.priority.max() < 100
        results.append((update.priority, *updater.weights().values()))
    for torchs, natives in zip(*results, strict=True):
        np.testing.assert_allclose(torchs, natives, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_no_masked_action_is_ever_taken(epsilon: float) -> None:
    """Of random Q values and masks; exploring actions are uniform over the legal ones."""
    random = np.random.default_rng(0)
    rows, actions = 4_000, 6
    exploration = EpsilonGreedy([epsilon] * rows, 1)
    mask = random.random((rows, actions)) < 0.4
    mask[np.arange(rows), random.integers(actions, size=rows)] = True
    q = np.where(mask, 1e3 * random.standard_normal((rows, actions)), ILLEGAL).astype(np.float32)
    for _ in range(5):
        assert mask[np.arange(rows), exploration.choose(q)].all()
    if epsilon == 1:
        q[:] = np.where([True, False, True, False, False, True], 1.0, ILLEGAL)
        share = np.bincount(exploration.choose(q), minlength=6) / rows
        np.testing.assert_allclose(share, [1 / 3, 0, 1 / 3, 0, 0, 1 / 3], atol=0.04)  # 5 standard deviations


def test_without_masks_exploration_draws_what_it_always_drew() -> None:
    q = np.random.default_rng(0).standard_normal((500, 7)).astype(np.float32)
    draws = np.random.Generator(np.random.PCG64(3)).random((2, 500))
    assert EpsilonGreedy([1.0] * 500, 3).choose(q).tolist() == (draws[1] * 7).astype(int).tolist()


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((7, 7, 3), True),
        ((3, 7, 7), False),
        ((8, 8, 111), True),
        ((20, 8, 8), False),
        ((9, 7, 3), True),
        ((7, 7), False),
    ],
)
def test_channels_are_told_from_rows_and_columns(shape: tuple[int, ...], last: bool) -> None:
    other = Part("action_mask", "int8", (2,), 24_000)
    spec = EnvironmentSpec((24_008,), "uint8", 2, parts=(Part("observation", "uint8", shape, 0), other), masked=True)
    assert Architecture.of(spec, "mlp", (4,)).encoders[0].channels_last == last
    plain = EnvironmentSpec(shape, "uint8", 2)
    assert Architecture.of(plain, "mlp", (4,)).encoders[0].channels_last == last


def test_torch_sees_images_with_channels_last() -> None:
    """A pixel of [H, W, C] reaches the CNN's channel C."""
    spec = spec_of("image")
    architecture = Architecture.of(spec, "grid", ())
    assert architecture.encoders[0].image_shape == (3, 7, 9)
    network = PolicyNetwork(architecture)
    vector = np.zeros(network.layout.size, np.float32)
    views = network.layout.views(vector)
    views["image_0_convolution_0.weight"][0, 2, 1, 1] = 1  # reads channel 2
    views["image_0_convolution_1.weight"][0, 0, 1, 1] = 1
    views["q.weight"][0, 9 * 4 + 5] = 1  # output channel 0 at row 4, column 5
    observation = records(spec, 1)
    observation[:] = 0
    observation[0, :189].reshape(7, 9, 3)[4, 5, 2] = 255
    observation[0, 192:].view(np.int64)[0] = 2
    module = open_network("torch", network, vector)
    policy = Policy(PolicyGraph(architecture).serialize(views), 1)
    for output in (module.output(module.place(observation)), policy.output(observation)):
        np.testing.assert_allclose(output, [[1, 0, 0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize("shape", [(7, 9, 3), (40, 36, 3), (3, 36, 36), (36, 36)])
def test_torch_and_graph_see_the_same_image_without_parts(shape: tuple[int, ...]) -> None:
    """The rows, columns and channels of Gymnasium's images, or channels first."""
    spec = EnvironmentSpec(shape, "uint8", 5)
    architecture = Architecture.of(spec, "auto", (16,))
    assert architecture.encoders[0].image_shape == {(7, 9, 3): (3, 7, 9), (40, 36, 3): (3, 40, 36)}.get(
        shape, (1, *shape)[-3:]
    )
    assert architecture.kind == ("grid" if shape == (7, 9, 3) else "nature")
    network = PolicyNetwork(architecture)
    vector = network.layout.initial(np.random.default_rng(1))
    observation = np.random.default_rng(0).integers(0, 256, (4, *shape), np.uint8)
    module = open_network("torch", network, vector)
    policy = Policy(PolicyGraph(architecture).serialize(network.layout.views(vector)), 1)
    np.testing.assert_allclose(policy.output(observation), module.output(module.place(observation)), atol=1e-5)
