"""CrossQ's settings: those that can never work are refused by name; exploration is the policy's own."""

from math import inf, nan
from typing import Any

import pytest

from headrace.algorithms.crossq.config import CrossQ
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"critic_learning_rate": 0.0}, "critic_learning_rate is 0.0"),
        ({"temperature_learning_rate": -1e-3}, "temperature_learning_rate is -0.001"),
        ({"initial_temperature": 0.0}, "initial_temperature is 0.0"),
        ({"critic_hidden": (64, 0)}, "critic_hidden is (64, 0)"),
        ({"critic_hidden": ()}, "critic_hidden is ()"),
        ({"policy_update_period": 0}, "policy_update_period is 0"),
        ({"renormalization_starts": -1}, "renormalization_starts is -1"),
        ({"adam_beta1": 1.0}, "adam_beta1 is 1.0"),
        ({"statistics_momentum": nan}, "statistics_momentum is nan"),
        ({"statistics_momentum": -0.1}, "statistics_momentum is -0.1"),
        ({"target_update_rate": 0.5}, "target_update_rate is 0.5"),
        ({"target_update_period": 1}, "target_update_period is 1"),
        ({"target_entropy": inf}, "target_entropy is inf"),
    ],
)
def test_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        CrossQ(**settings)
    assert str(caught.value).startswith(f"{field}; it must be ")


def test_all_environments_sample_the_policy_itself() -> None:
    assert CrossQ().exploration(3) == [1.0, 1.0, 1.0]
    assert CrossQ().serial_exploration(3, 10**6) == [1.0, 1.0, 1.0]


def test_actors_compute_a_plain_mlp() -> None:
    architecture = CrossQ(hidden=(32, 16)).architecture(EnvironmentSpec((3,), "float32", 2, continuous=True))
    assert architecture.layout.size == 3 * 32 + 32 + 32 * 16 + 16 + 16 * 4 + 4
