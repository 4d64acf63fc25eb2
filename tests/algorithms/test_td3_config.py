"""TD3's settings: those that can never work are refused by name; noise of each environment."""

from math import inf
from typing import Any

import pytest

from headrace.algorithms.td3.config import TD3
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"critic_learning_rate": 0.0}, "critic_learning_rate is 0.0"),
        ({"critic_hidden": (64, 0)}, "critic_hidden is (64, 0)"),
        ({"critic_hidden": ()}, "critic_hidden is ()"),
        ({"policy_update_period": 0}, "policy_update_period is 0"),
        ({"target_noise": -0.1}, "target_noise is -0.1"),
        ({"target_noise": inf}, "target_noise is inf"),
        ({"target_noise_clip": -0.5}, "target_noise_clip is -0.5"),
        ({"target_update_rate": 1.5}, "target_update_rate is 1.5"),
        ({"sigmas": ()}, "sigmas is ()"),
        ({"sigmas": (0.1, -0.2)}, "sigmas is (0.1, -0.2)"),
        ({"n_step": 0}, "n_step is 0"),
    ],
)
def test_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TD3(**settings)
    assert str(caught.value).startswith(f"{field}; it must be ")


def test_noise_is_the_ladder_of_sigmas_in_every_topology() -> None:
    config = TD3(sigmas=(0.1, 0.5))
    assert config.exploration(5) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert config.serial_exploration(5, 10**6) == config.exploration(5)


def test_actors_send_no_priorities() -> None:
    assert not TD3(prioritized=True).actor_priorities(EnvironmentSpec((3,), "float32", 2, continuous=True))
