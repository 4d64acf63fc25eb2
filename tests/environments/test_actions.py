"""Actions of a policy as those of an environment, and back."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from headrace.environments.actions import BranchActions, ContinuousActions, DiscreteActions, action_parts
from headrace.errors import EnvironmentFault


def test_discrete_actions_count_from_the_environments_first():
    actions = np.array([0, 2, 1])
    assert DiscreteActions(5).to_environment(actions) == [5, 7, 6]
    assert DiscreteActions(0).to_environment(actions) == [0, 2, 1]
    record = DiscreteActions(5).from_record([0, 2])
    assert (record.tolist(), record.dtype) == ([0, 2], np.int64)
    assert DiscreteActions(5).from_record([]).dtype == np.int64


def test_continuous_actions_reach_from_low_to_high():
    """Of asymmetric bounds: -1 is low, 1 high, 0 the middle, 0.5 three quarters of the way; outside is cut."""
    bounds = ContinuousActions(np.array([-1.0, 0, 10]), np.array([3, 0.5, 20]))
    actions = np.array([[-1, -1, -1], [1, 1, 1], [0, 0.5, -0.5], [-7, 2, 1.5]], np.float32)
    expected = [[-1, 0, 10], [3, 0.5, 20], [1, 0.375, 12.5], [-1, 0.5, 20]]
    assert [action.tolist() for action in bounds.to_environment(actions)] == expected


def test_recorded_continuous_actions_are_restored():
    bounds = ContinuousActions(np.zeros((2, 1)), np.ones((2, 1)))
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32)
    record = bounds.from_record(json.loads(json.dumps(actions.tolist())))
    np.testing.assert_array_equal(record, actions)
    assert record.dtype == np.float32
    assert bounds.from_record([]).shape == (0, 2)


ROBOT = spaces.Dict(
    arm=spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiBinary(2)]),
    wheels=spaces.MultiDiscrete([[2, 4]], start=[[0, -1]]),
)


def test_the_parts_of_a_nested_action_are_its_dimensions():
    """The tuple's three dimensions come first: Gymnasium sorts keys."""
    actions = BranchActions(action_parts(ROBOT))
    assert actions.branches == (3, 2, 2, 2, 4)
    first, second = actions.to_environment(np.array([[0, 1, 0, 1, 3], [2, 0, 1, 0, 0]]))
    assert first["arm"][0] == 1
    assert first["arm"][1].tolist() == [1, 0]
    assert first["wheels"].tolist() == [[1, 2]]
    assert second["arm"][0] == 3
    assert second["wheels"].tolist() == [[0, -1]]
    assert ROBOT.contains(first)
    assert ROBOT.contains(second)
    batch = actions.to_batch(np.array([[0, 1, 0, 1, 3], [2, 0, 1, 0, 0]]))
    assert batch["arm"][0].tolist() == [1, 3]
    assert batch["arm"][1].tolist() == [[1, 0], [0, 1]]
    assert batch["wheels"].shape == (2, 1, 2)
    assert gymnasium.vector.utils.batch_space(ROBOT, 2).contains(batch)


def test_every_action_of_a_policy_is_in_the_space():
    random = np.random.default_rng(0)
    actions = BranchActions(action_parts(ROBOT))
    for action in actions.to_environment(random.integers(0, actions.branches, (200, 5))):
        assert ROBOT.contains(action)


def test_a_tuple_of_one_number():
    (action,) = BranchActions(action_parts(spaces.Tuple([spaces.Discrete(4)]))).to_environment(np.array([[3]]))
    assert action == (3,)


def test_masks_have_the_structure_of_the_action():
    actions = BranchActions(action_parts(ROBOT))
    mask = {"arm": (np.array([1, 0, 1]), np.array([1, 1, 0, 1])), "wheels": (np.array([1, 0]), np.array([0, 1, 1, 1]))}
    assert actions.flatten_mask(mask).tolist() == [1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1]
    batch = {"arm": (np.ones((2, 3)), np.ones((2, 4))), "wheels": np.zeros((2, 6))}
    assert actions.flatten_mask(batch).shape == (2, 13)
    with pytest.raises(EnvironmentFault, match=r"info\['action_mask'\]\['wheels'\] is missing"):
        actions.flatten_mask({"arm": mask["arm"]})


def test_an_action_without_parts_is_refused():
    with pytest.raises(EnvironmentFault, match="action space is Dict; a Discrete, "):
        action_parts(spaces.Dict())


def test_the_mask_of_an_array_is_flat():
    wheels = BranchActions(action_parts(spaces.MultiDiscrete([2, 3])))
    assert wheels.flatten_mask(np.array([1, 0, 0, 1, 1])).tolist() == [1, 0, 0, 1, 1]
    assert wheels.flatten_mask([1, 0, 0, 1, 1]).tolist() == [1, 0, 0, 1, 1]


def test_the_mask_of_a_matrix_is_nested_as_gymnasium_takes_it():
    space = spaces.MultiDiscrete([[2, 3], [4, 2]])
    mask = ((np.ones(2, np.int8), np.ones(3, np.int8)), (np.eye(4, dtype=np.int8)[1], np.ones(2, np.int8)))
    assert space.sample(mask)[1, 0] == 1
    assert BranchActions(action_parts(space)).flatten_mask(mask).tolist() == [1] * 5 + [0, 1, 0, 0] + [1] * 2


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        ({"a": 1, "b": np.ones(5)}, r"\['a'\] has shape \(\); \(2,\) is required"),
        ({"a": None, "b": np.ones(5)}, r"\['a'\] has shape \(\)"),
        ({"a": np.ones(3), "b": np.ones(4)}, r"\['a'\] has shape \(3,\)"),  # as many numbers as the two have together
        (
            {"a": np.ones(2), "b": (np.ones(3), np.ones(2))},
            r"\['b'\] has shape \(3,\) and \(2,\); \(5,\), or a tuple of ",
        ),
        ({"a": np.ones(2), "b": (np.ones(2), 1)}, r"\['b'\] has shape \(2,\) and \(\)"),
        ({"a": np.ones((1, 2)), "b": np.ones(5)}, r" has arrays of shapes \(1, 2\), \(5,\)"),
    ],
)
def test_a_mask_of_another_size_is_refused(mask, problem):
    """It would be that of other actions, or an exception of NumPy."""
    actions = BranchActions(action_parts(spaces.Dict(a=spaces.Discrete(2), b=spaces.MultiDiscrete([2, 3]))))
    with pytest.raises(EnvironmentFault, match=r"info\['action_mask'\]" + problem):
        actions.flatten_mask(mask)
