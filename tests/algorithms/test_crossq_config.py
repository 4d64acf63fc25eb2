"""CrossQ's settings: those that can never work are refused by name."""

from math import inf, nan
from typing import Any

import pytest

from headrace.algorithms.crossq.config import CrossQ
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"temperature_learning_rate": -1e-3}, "temperature_learning_rate is -0.001"),
        ({"initial_temperature": 0.0}, "initial_temperature is 0.0"),
        ({"batch_size": 1}, "batch_size is 1"),
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
