"""D4PG's settings: those that can never work are refused by name; noise of each environment."""

from math import inf, nan
from typing import Any

import pytest

from headrace.algorithms.d4pg.config import D4PG
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"critic_learning_rate": 0.0}, "critic_learning_rate is 0.0; it must be above 0"),
        ({"critic_hidden": (64, 0)}, "critic_hidden is (64, 0); it must be widths above 0"),
        ({"critic_hidden": ()}, "critic_hidden is (); it must be one width or more"),
        ({"atoms": 1}, "atoms is 1; it must be 2 or more"),
        ({"value_min": 5.0, "value_max": 5.0}, "value_max is 5.0; it must be above value_min (5.0)"),
        ({"value_max": inf}, "value_max is inf; it must be a finite number"),
        ({"value_min": nan}, "value_min is nan; it must be a finite number"),
        ({"sigmas": ()}, "sigmas is (); it must be one number or more"),
        ({"sigmas": (0.1, -0.2)}, "sigmas is (0.1, -0.2); it must be numbers of 0 or more"),
        ({"sigmas": (inf,)}, "sigmas is (inf,); it must be a tuple of values, each a finite number"),
        ({"saturation_penalty": -0.1}, "saturation_penalty is -0.1; it must be 0 or more"),
        ({"n_step": 0}, "n_step is 0; it must be above 0"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        D4PG(**settings)
    assert str(caught.value) == message


def test_noise_is_the_ladder_of_sigmas_in_every_topology() -> None:
    config = D4PG(sigmas=(0.0, 0.2))
    assert config.exploration(5) == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert config.serial_exploration(5, 10**6) == config.exploration(5)


def test_actors_send_no_priorities() -> None:
    assert not D4PG(prioritized=True).actor_priorities(EnvironmentSpec((3,), "float32", 2, continuous=True))
