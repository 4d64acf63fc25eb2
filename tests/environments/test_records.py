"""Records of observations of any space, and action masks."""

import dataclasses
import json
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from headrace.environments import describe, make_batch, require_spec
from headrace.environments.actions import BranchActions, action_parts
from headrace.environments.records import Packer, row_of
from headrace.errors import EnvironmentFault
from headrace.fields import read_fields
from headrace.networks.records import split
from headrace.types import EnvironmentSpec, Part

TOY = "headrace.environments.toy"
SPACE = spaces.Dict(
    flag=spaces.MultiBinary(3),
    image=spaces.Box(0, 255, (2, 2, 3), np.uint8),
    inner=spaces.Tuple([spaces.Discrete(4, start=-1), spaces.Box(-1, 1, (2,), np.float64)]),
    wheel=spaces.MultiDiscrete([3, 5], start=[0, 2]),
)


def test_parts_are_aligned() -> None:
    assert Packer(SPACE, None, 0).parts == (
        Part("observation.flag", "int8", (3,), 0),
        Part("observation.image", "uint8", (2, 2, 3), 3),
        Part("observation.inner.0", "int64", (), 16, (4,), (-1,)),
        Part("observation.inner.1", "float64", (2,), 24),
        Part("observation.wheel", "int64", (2,), 40, (3, 5), (0, 2)),
    )
    assert Packer(SPACE, None, 0).record_bytes == 56


def test_records_keep_what_spaces_sample() -> None:
    packer = Packer(SPACE, np.ones(2, np.int8), 2)
    SPACE.seed(0)
    samples = [SPACE.sample() for _ in range(20)]
    masks = [[1, 0], [0, 1], [1, 1], [True, False]] * 5
    records = np.empty((20, packer.record_bytes), np.uint8)
    for sample, mask, record in zip(samples, masks, records, strict=True):
        packer.pack(sample, {"action_mask": mask}, record, final=False)
    values = split(records, packer.parts)
    assert list(values) == [part.name for part in packer.parts]
    for index, sample in enumerate(samples):
        np.testing.assert_array_equal(values["observation.flag"][index], sample["flag"])
        np.testing.assert_array_equal(values["observation.image"][index], sample["image"])
        assert values["observation.inner.0"][index] == sample["inner"][0]
        np.testing.assert_array_equal(values["observation.inner.1"][index], sample["inner"][1])
        np.testing.assert_array_equal(values["observation.wheel"][index], sample["wheel"])
        np.testing.assert_array_equal(values["action_mask"][index], masks[index])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"flag": [0, 2, 0]}, "observation['flag'][1] is 2; 0 to 1 is required"),
        ({"image": np.zeros((2, 2), np.uint8)}, "observation['image'] has shape (2, 2); its space declares (2, 2, 3)"),
        (
            {"image": np.full((2, 2, 3), 256, np.uint16)},
            "observation['image'][0, 0, 0] is 256; its space declares uint8",
        ),
        ({"image": np.zeros((2, 2, 3))}, "observation['image'] has dtype float64; its space declares uint8"),
        ({"inner": (3, np.zeros(2))}, "observation['inner'][0] is 3; -1 to 2 is required"),
        ({"inner": (0.5, np.zeros(2))}, "observation['inner'][0] has dtype float64; its space declares int64"),
        ({"inner": (0, np.array([0, np.nan]))}, "observation['inner'][1][1] is nan; every value must be finite"),
        (
            {"inner": (0, np.array([0, 1e39]))},
            "observation['inner'][1][1] is 1e+39; every value must be finite as float32",
        ),
        ({"inner": (0,)}, "observation['inner'][1] is missing"),
        ({"wheel": [2, 7]}, "observation['wheel'][1] is 7; 2 to 6 is required"),
        ({"wheel": [[2], [7, 3]]}, "observation['wheel'] is [[2], [7, 3]]; its space declares"),
    ],
)
def test_an_observation_outside_its_space_is_refused(change: dict[str, Any], problem: str) -> None:
    packer = Packer(SPACE, None, 0)
    SPACE.seed(1)
    with pytest.raises(EnvironmentFault, match=re.escape(problem)):
        packer.pack(SPACE.sample() | change, {}, np.empty(packer.record_bytes, np.uint8), final=False)


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        ({"action_mask": [0, 0, 0]}, "info['action_mask'] has no legal action; at least one of its 3 must be 1"),
        ({"action_mask": [1, 0]}, "info['action_mask'] has shape (2,); its space declares (3,)"),
        ({"action_mask": [1, 2, 0]}, "info['action_mask'][1] is 2; 0 to 1 is required"),
        ({"action_mask": [1.0, 0.0, 0.0]}, "info['action_mask'] has dtype float64"),
        ({}, "info['action_mask'] is missing"),
    ],
)
def test_an_invalid_mask_is_refused(info: dict[str, Any], problem: str) -> None:
    packer = Packer(spaces.Discrete(4), np.ones(3), 3)
    with pytest.raises(EnvironmentFault, match=re.escape(problem)):
        packer.pack(0, info, np.empty(packer.record_bytes, np.uint8), final=False)


def test_each_dimension_needs_a_legal_action() -> None:
    """The mask of a Dict action is a Dict; it is stored flat."""
    parted = BranchActions(action_parts(spaces.Dict(a=spaces.Discrete(2), b=spaces.MultiDiscrete([2, 1]))))
    mask: dict[str, Any] = {"a": np.array([1, 0]), "b": (np.array([0, 1]), np.array([1]))}
    packer = Packer(spaces.Discrete(4), mask, 5, parted)
    record = np.empty(packer.record_bytes, np.uint8)
    packer.pack(2, {"action_mask": mask}, record, final=False)
    assert split(record[None], packer.parts)["action_mask"].tolist() == [[1, 0, 0, 1, 1]]
    none = {**mask, "b": (np.zeros(2, np.int8), np.array([1]))}
    with pytest.raises(EnvironmentFault, match="has no legal action; at least one of each dimension of its 5 must be"):
        packer.pack(2, {"action_mask": none}, record, final=False)
    packer.pack(2, {"action_mask": none}, record, final=True)
    with pytest.raises(EnvironmentFault, match=re.escape("info['action_mask']['b'] is missing")):
        packer.pack(2, {"action_mask": {"a": mask["a"]}}, record, final=False)


@pytest.mark.parametrize("final", [True, False])
def test_a_batch_is_packed_as_its_rows_are(final: bool) -> None:
    packer = Packer(SPACE, np.ones(2, np.int8), 2)
    SPACE.seed(1)
    samples = [SPACE.sample() for _ in range(3)]
    masks = np.array([[1, 0], [0, 1], [1 - final] * 2], np.int8)  # after the last step there may be none
    ends = np.array([False, False, final])
    records, batch = np.empty((2, 3, packer.record_bytes), np.uint8)
    for sample, mask, end, record in zip(samples, masks, ends.tolist(), records, strict=True):
        packer.pack(sample, {"action_mask": mask}, record, final=end)
    vectors = gymnasium.vector.utils
    observation = vectors.concatenate(SPACE, samples, vectors.create_empty_array(SPACE, 3))
    packer.pack_batch(observation, {"action_mask": masks}, batch, ends)
    np.testing.assert_array_equal(batch, records)
    assert row_of(observation, 1)["inner"][0] == samples[1]["inner"][0]


def test_a_value_of_a_batch_outside_its_space_is_named() -> None:
    packer = Packer(spaces.Dict(kind=spaces.Discrete(3), bits=spaces.MultiBinary(2)), None, 0)
    batch, ends = np.empty((2, packer.record_bytes), np.uint8), np.zeros(2, np.bool_)
    good = {"kind": np.array([0, 2]), "bits": np.ones((2, 2), np.int8)}
    packer.pack_batch(good, {}, batch, ends)
    for wrong, said in (
        ({"kind": np.array([0, 3])}, r"\[1\] is 3; 0 to 2 is required"),
        ({"bits": np.array([[1, 1], [0, 5]], np.int8)}, r"\[1, 1\] is 5; 0 to 1 is required"),
    ):
        with pytest.raises(EnvironmentFault, match=said):
            packer.pack_batch(good | wrong, {}, batch, ends)


@pytest.mark.parametrize("info", [{}, {"action_mask": [0, 0, 0]}])
def test_after_the_last_step_any_mask_will_do(info: dict[str, Any]) -> None:
    packer = Packer(spaces.Discrete(4), np.ones(3), 3)
    packer.pack(0, info, np.empty(packer.record_bytes, np.uint8), final=True)


@pytest.mark.parametrize("kind", [spaces.Box(0, 1, (2,), np.int8), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2])])
def test_a_mask_may_be_a_key_of_the_observation(kind: spaces.Space[Any]) -> None:
    """As PettingZoo does; it becomes the last part."""
    space = spaces.Dict(action_mask=kind, state=spaces.Discrete(3))
    packer = Packer(space, None, 2)
    assert packer.masked
    assert [part.name for part in packer.parts] == ["observation.state", "observation.action_mask"]
    record = np.empty(packer.record_bytes, np.uint8)
    packer.pack({"action_mask": np.array([0, 1], np.int8), "state": 2}, {}, record, final=False)
    with pytest.raises(EnvironmentFault, match=re.escape("observation['action_mask'][0] is 2; 0 to 1 is required")):
        packer.pack({"action_mask": np.array([2, 0], np.int8), "state": 2}, {}, record, final=False)
    with pytest.raises(EnvironmentFault, match="has no legal action"):
        packer.pack({"action_mask": np.array([0, 0], np.int8), "state": 2}, {}, record, final=False)
    assert packer.parts[-1].dtype == "int8"
    assert not Packer(space, None, 0).masked  # of continuous actions it is a part like any other


def test_a_mask_with_parts_in_the_observation_is_refused() -> None:
    """It would be an observation like any other, and illegal actions would be taken."""
    action = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(3))
    mask = spaces.Dict(a=spaces.MultiBinary(2), b=spaces.MultiBinary(3))
    space = spaces.Dict(action_mask=mask, state=spaces.Discrete(3))
    with pytest.raises(EnvironmentFault, match=re.escape("observation['action_mask'] has parts, such as observation")):
        Packer(space, None, 5, BranchActions(action_parts(action)))
    assert len(Packer(space, None, 0).parts) == 3  # of continuous actions it is a part like any other


def test_a_mask_of_floats_is_refused() -> None:
    space = spaces.Dict(action_mask=spaces.Box(0, 1, (2,), np.float32), state=spaces.Discrete(3))
    with pytest.raises(EnvironmentFault, match=re.escape("observation['action_mask'] has dtype float32; bool or an")):
        Packer(space, None, 2)


def test_describes() -> None:
    cell = Part("observation", "int64", (), 0, (16,), (0,))
    assert describe("FrozenLake-v1") == EnvironmentSpec((8,), "uint8", 4, parts=(cell,))
    taxi = describe("Taxi-v4")
    assert taxi.masked
    assert taxi.parts[-1] == Part("action_mask", "int8", (6,), 8)
    assert [part.categories for part in describe("Blackjack-v1").parts] == [(32,), (11,), (2,)]
    goal = describe(f"{TOY}:Goal")
    assert (goal.continuous, goal.masked, goal.observation_shape) == (True, False, (48,))


def test_specs_with_other_parts_are_told_apart() -> None:
    spec = describe("Taxi-v4")
    other = dataclasses.replace(spec, parts=(dataclasses.replace(spec.parts[0], categories=(7,)), spec.parts[1]))
    told = (
        r"observation int64 \[\] of \[500\] categories .*action_mask int8 \[6\] and 6 .* here, and .*\[7\] categories"
    )
    with pytest.raises(EnvironmentFault, match=told):
        require_spec("Taxi-v4", spec, other)
    record = json.loads(json.dumps(dataclasses.asdict(spec)))
    assert read_fields(EnvironmentSpec, record) == spec  # as in checkpoints


def test_a_batch_has_records_and_names_the_place_of_a_fault(own_module: Any) -> None:
    name = own_module("""
        from headrace.environments.toy import Maze
        class Closed(Maze):
            def step(self, action):
                observation, reward, terminated, truncated, info = super().step(action)
                if self._steps == 3:
                    info["action_mask"][:] = 0
                return observation, reward, False, truncated, info
    """)
    batch = make_batch(f"{name}:Closed", 1, seed=3)
    parts = batch.spec.parts
    observation = batch.start()
    for _ in range(2):
        assert split(observation, parts)["observation.image"].sum(dtype=int) == 2 * 255
        observation = batch.step(split(observation, parts)["action_mask"].argmax(1)).observation
    with pytest.raises(EnvironmentFault, match=r'index 0, episode 0, step 3: info\["?\'action_mask'):
        batch.step(split(observation, parts)["action_mask"].argmax(1))
