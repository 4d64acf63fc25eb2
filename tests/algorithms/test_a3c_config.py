"""A3C's settings: those that can never work are refused by name."""

from typing import Any

import pytest

from headrace import A3C
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_step": 0}, "n_step is 0; it must be above 0"),
        ({"entropy_bonus": -0.1}, "entropy_bonus is -0.1; it must be 0 or more"),
        ({"value_weight": -1.0}, "value_weight is -1.0; it must be 0 or more"),
        ({"max_gradient_norm": -1.0}, "max_gradient_norm is -1.0; it must be 0 or more"),
        ({"optimizer_decay": 1.5}, "optimizer_decay is 1.5; it must be 0 or more and below 1"),
        ({"optimizer": "adam", "adam_beta1": 1.0}, "adam_beta1 is 1.0; it must be 0 or more and below 1"),
        (
            {"optimizer": "rmsprop", "adam_beta1": 0.5},
            "adam_beta1 is 0.5; it must be the default unless optimizer is adam",
        ),
        (
            {"optimizer": "adam", "optimizer_decay": 0.9},
            "optimizer_decay is 0.9; it must be the default unless optimizer is rmsprop or centered-rmsprop or "
            "momentum",
        ),
        ({"optimizer_epsilon": 0.0}, "optimizer_epsilon is 0.0; it must be above 0"),
        ({"discount": 1.1}, "discount is 1.1; it must be between 0 and 1"),
        ({"trunk": "both"}, "trunk is both; it must be shared or separate"),
        (
            {"optimizer": "lion"},
            "optimizer is lion; it must be adam, rmsprop, centered-rmsprop, adagrad, momentum or sgd",
        ),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        A3C(**settings)
    assert str(caught.value) == message
