"""SAC's settings: those that can never work are refused by name."""

from math import inf, nan
from typing import Any

import pytest

from headrace.algorithms.sac.config import SAC
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"temperature_learning_rate": -1e-3}, "temperature_learning_rate is -0.001"),
        ({"initial_temperature": 0.0}, "initial_temperature is 0.0"),
        ({"target_entropy": nan}, "target_entropy is nan"),
        ({"target_entropy": inf}, "target_entropy is inf"),
        ({"target_update_rate": 1.5}, "target_update_rate is 1.5"),
        ({"n_step": 0}, "n_step is 0"),
    ],
)
def test_refused(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SAC(**settings)
    assert str(caught.value).startswith(f"{field}; it must be ")


@pytest.mark.parametrize("target_entropy", [None, 0.0, -6.0, 0.5])
def test_every_finite_target_entropy_is_accepted(target_entropy: float | None) -> None:
    assert SAC(target_entropy=target_entropy).target_entropy == target_entropy


def test_actors_send_no_priorities() -> None:
    assert not SAC(prioritized=True).actor_priorities(EnvironmentSpec((3,), "float32", 2, continuous=True))
