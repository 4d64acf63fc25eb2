"""Specs of spaces, and the spaces that are refused."""

import gymnasium
import pytest

from headrace.environments import describe
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
        ("headrace.environments.toy:Frames", EnvironmentSpec((84, 84), "uint8", 2)),
        ("ALE/Breakout-v5", EnvironmentSpec((84, 84), "uint8", 4, stack=4)),
    ],
)
def test_describes(environment_id, spec):
    assert describe(environment_id) == spec


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

    assert read_spaces(Made(), "made") == (EnvironmentSpec(shape, dtype, 3), 5)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("action=spaces.Box(-1, 1, (2,))", "action space is Box of shape (2,), continuous; DQN needs discrete actions"),
        ("action=spaces.MultiDiscrete([3, 2])", "action space is MultiDiscrete of shape (2,); a Discrete space"),
        ("action=spaces.MultiBinary(3)", "action space is MultiBinary of shape (3,); a Discrete space"),
        ("observation=spaces.Dict(a=spaces.Discrete(2))", "observation space is Dict; a Box is required"),
        ("observation=spaces.Tuple([spaces.Discrete(2)])", "observation space is Tuple; a Box is required"),
        ("observation=spaces.Discrete(16)", "observation space is Discrete of shape (); a Box is required"),
    ],
)
def test_unsupported_spaces(own_module, arguments, problem):
    name = own_module(SPACES + f"\n    def made():\n        return environment({arguments})\n")
    with pytest.raises(EnvironmentFault) as caught:
        describe(f"{name}:made")
    message = str(caught.value)
    assert message.startswith(f'environment "{name}:made": {problem}')
    assert "\n" not in message


def test_continuous_actions_of_a_registered_environment():
    with pytest.raises(EnvironmentFault, match="DQN needs discrete actions"):
        describe("Pendulum-v1")
