"""Deep Dyna-Q's settings: what is refused, and how batches are shared."""

import re
from typing import Any

import pytest

from headrace import DynaQ
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"real_fraction": 0.0}, "real_fraction is 0.0; above 0, and at most 1"),
        ({"real_fraction": 1.5}, "real_fraction is 1.5; above 0, and at most 1"),
        ({"ensemble_size": 1}, "ensemble_size is 1; 2 or more"),
        ({"planners": 0}, "planners is 0; above 0"),
        ({"rollout_steps": 0}, "rollout_steps is 0; above 0"),
        ({"rollout_epsilon": 1.1}, "rollout_epsilon is 1.1; between 0 and 1"),
        ({"search_control": "newest"}, "search_control is newest; prioritized or uniform"),
        ({"model_hidden": (64, 0)}, "model_hidden is (64, 0); widths above 0"),
        ({"model_error_limit": 0.0}, "model_error_limit is 0.0; above 0"),
        ({"simulated_capacity": 256}, "simulated_capacity is 256; at least 257"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, Any], said: str) -> None:
    words = said.split("; ")
    with pytest.raises(ConfigError, match=".*".join(map(re.escape, words))):
        DynaQ(**settings)


@pytest.mark.parametrize(("fraction", "rows"), [(0.5, 128), (0.1, 26), (0.001, 1), (1.0, 256)])
def test_a_batch_has_at_least_one_real_row(fraction: float, rows: int) -> None:
    config = DynaQ(real_fraction=fraction, batch_size=256)
    assert config.real_rows == rows
    assert config.world_model == (config if rows < 256 else None)
    assert not DynaQ(real_fraction=fraction, planning=False).world_model


@pytest.mark.parametrize(
    "spec",
    [
        EnvironmentSpec((84, 84), "uint8", 4, stack=4),
        EnvironmentSpec((8,), "uint8", 4),
        EnvironmentSpec((2, 3), "float32", 4),
        EnvironmentSpec((), "float32", 4),
        EnvironmentSpec((8,), "float32", 4, stack=2),
    ],
)
def test_only_vectors_of_floats_have_a_world_model(spec: EnvironmentSpec) -> None:
    with pytest.raises(ConfigError, match=r"algorithm is dyna-q, and an observation is .* vectors of floats"):
        DynaQ().require_spaces(spec)
    DynaQ().require_spaces(EnvironmentSpec((8,), "float32", 4))
    DynaQ(planning=False).require_spaces(spec)


def test_continuous_actions_are_refused_naming_dyna_q() -> None:
    with pytest.raises(ConfigError, match="algorithm is dyna-q, and the environment's actions are continuous"):
        DynaQ().make_updater(EnvironmentSpec((4,), "float32", 2, continuous=True), "cpu", 0)
