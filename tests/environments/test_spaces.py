"""Specs of spaces, and the spaces that are refused."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest

from headrace.environments import describe, require_spec
from headrace.environments.actions import DiscreteActions
from headrace.environments.spaces import read_spaces
from headrace.errors import EnvironmentFault
from headrace.types import EnvironmentSpec

SPACES = """
    import numpy as np
    from gymnasium import spaces
    from headrace.environments.toy import Corridor

    def environment(observation=None, action=None):
        made = Corridor()
        made.observation_space = observation or made.observation_space
        made.action_space = action or made.action_space
        return made
"""


@pytest.mark.parametrize(
    ("environment_id", "spec"),
    [
        ("CartPole-v1", EnvironmentSpec((4,), "float32", 2)),
        ("LunarLander-v3", EnvironmentSpec((8,), "float32", 4)),
        ("Pendulum-v1", EnvironmentSpec((3,), "float32", 1, continuous=True)),
        ("headrace.environments.toy:Target", EnvironmentSpec((2,), "float32", 1, continuous=True)),
        ("headrace.environments.toy:Frames", EnvironmentSpec((84, 84), "uint8", 2)),
        ("ALE/Breakout-v5", EnvironmentSpec((84, 84), "uint8", 4, stack=4)),
        ("headrace/Snake-v0", EnvironmentSpec((3, 19, 19), "uint8", 4)),
        ("headrace/SnakeFrames-v0", EnvironmentSpec((16, 16), "uint8", 4, stack=4)),
    ],
)
def test_describes(environment_id, spec):
    assert describe(environment_id) == spec


@pytest.mark.parametrize("stack", [0, 2.0, "4", None])
def test_an_invalid_stack_is_refused(own_module, stack):
    name = own_module(f"""
        from headrace.environments.toy import Corridor
        class Stacked(Corridor):
            metadata = {{"stack": {stack!r}}}
    """)
    with pytest.raises(EnvironmentFault, match=r'metadata\["stack"\] is .*; 1 or more is required'):
        describe(f"{name}:Stacked")


def test_a_reset_that_raises_is_one_line(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        class Broken(Corridor):
            def reset(self, **options):
                raise KeyError("cells")
    """)
    with pytest.raises(
        EnvironmentFault,
        match=r"its first reset\(seed=0\) raised KeyError: 'cells' \(own_environments_\d+\.py, line 5\)$",
    ):
        describe(f"{name}:Broken")


def test_describe_closes_the_environment(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        closed = []
        class Watched(Corridor):
            def close(self):
                closed.append(True)
    """)
    describe(f"{name}:Watched")
    assert __import__(name).closed == [True]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 7)])
def test_any_shape_and_dtype(dtype, shape):
    class Made:
        observation_space = gymnasium.spaces.Box(0, 1, shape, dtype)
        action_space = gymnasium.spaces.Discrete(3, start=5)

    assert read_spaces(Made(), "made") == (EnvironmentSpec(shape, dtype, 3), DiscreteActions(5), None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_continuous_actions_have_the_spaces_shape_and_dtype(dtype, shape):
    random = np.random.default_rng(0)
    low = random.uniform(-3, 0, shape).astype(dtype)
    space = gymnasium.spaces.Box(low, low + random.uniform(0, 2, shape).astype(dtype), shape, dtype)

    class Made:
        observation_space = gymnasium.spaces.Box(0, 1, (4,))
        action_space = space

    spec, actions, _ = read_spaces(Made(), "made")
    count = int(np.prod(shape))
    assert spec == EnvironmentSpec((4,), "float32", count, continuous=True)
    for action in actions.to_environment(random.uniform(-1.2, 1.2, (50, count)).astype(np.float32)):
        assert (type(action), action.shape, action.dtype) == (np.ndarray, shape, dtype)
        assert space.contains(action)
    if shape == (2, 3):  # dimensions in C order
        (action,) = actions.to_environment(np.array([[-1, -1, -1, 1, 1, 1]], np.float32))
        np.testing.assert_allclose(action, [space.low[0], space.high[1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("action=spaces.Box(-np.inf, 1, (2,))", "action_space.low[0] is -inf; every action needs finite bounds"),
        (
            "action=spaces.Box(0, np.array([[1, np.inf]], np.float32))",
            "action_space.high[0, 1] is inf; every action needs finite",
        ),
        ("action=spaces.Box(-1, np.inf, ())", "action_space.high is inf; every action needs finite bounds"),
        ("action=spaces.Box(0, 5, (2,), np.int32)", "action dtype is int32; a float is required of a Box"),
        ("action=spaces.Box(0, 1, (2, 0))", "action shape is (2, 0); it must not be empty"),
        (
            "action=spaces.Text(9)",
            "action space is Text; a Discrete, MultiDiscrete or MultiBinary space, a Dict or Tup",
        ),
        (
            "action=spaces.Dict({'arm': spaces.Box(-1, 1, (2,))})",
            "action['arm'] has the space Box of shape (2,); a Disc",
        ),
        (
            "action=spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)])",
            "action[1] has the space Box of shape (1,); a ",
        ),
        ("observation=spaces.Dict(a=spaces.Text(9))", "observation['a'] has the space Text; a Box, Discrete, "),
        ("observation=spaces.Tuple([spaces.Sequence(spaces.Discrete(2))])", "observation[0] has the space Sequence"),
        ("observation=spaces.Graph(spaces.Box(0, 1), None)", "observation has the space Graph; a Box, Discrete, "),
        ("observation=spaces.Dict(a=spaces.Dict())", "observation has the parts []; one or more with different names"),
        ("observation=spaces.Dict(a=spaces.Box(0, 1, (0,)))", "observation['a'] has shape (0,); it must not be empty"),
        (
            "observation=spaces.Dict(action_mask=spaces.MultiBinary(3))",
            "observation['action_mask'] has shape (3,); (2,) is required of a mask",
        ),
    ],
)
def test_unsupported_spaces(own_module, arguments, problem):
    name = own_module(SPACES + f"\n    def made():\n        return environment({arguments})\n")
    with pytest.raises(EnvironmentFault) as caught:
        describe(f"{name}:made")
    message = str(caught.value)
    assert message.startswith(f'environment "{name}:made": {problem}')
    assert "\n" not in message


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"actions": 3}, "3 discrete actions"),
        ({"observation_shape": (5,)}, r"float32 \[5\]"),
        ({"observation_dtype": "float64"}, r"float64 \[4\]"),
        ({"continuous": True}, "2 continuous actions"),
        ({"stack": 4}, r"\[4\] x 4 frames"),
    ],
)
def test_an_environment_unlike_the_learners_is_refused(other: dict[str, Any], told: str) -> None:
    spec = EnvironmentSpec((4,), "float32", 2)
    require_spec("X-v1", spec, dataclasses.replace(spec))
    with pytest.raises(EnvironmentFault, match=rf'^environment "X-v1" has .*float32 \[4\] and 2 .* here, and .*{told}'):
        require_spec("X-v1", spec, dataclasses.replace(spec, **other))
