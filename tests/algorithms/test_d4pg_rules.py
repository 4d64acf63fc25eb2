"""D4PG's rules against numbers worked out by hand and torch's gradients."""

from math import exp, log

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.algorithms.d4pg.rules import (
    cross_entropy,
    cross_entropy_gradient,
    policy_gradient,
    value_gradient,
)
from headrace.algorithms.targets import softmax


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_cross_entropy_by_hand() -> None:
    entropy = cross_entropy(np.log(floats([0.25, 0.75], [0.5, 0.5])), floats([0.5, 0.5], [0, 1]))
    np.testing.assert_allclose(entropy, [-0.5 * log(0.25) - 0.5 * log(0.75), log(2)], rtol=1e-6)


def test_gradients_by_the_logits_are_torch_s() -> None:
    random = np.random.default_rng(0)
    logits, target = random.standard_normal((2, 20, 7)).astype(np.float32)
    target = softmax(target).probability
    weight, support = random.random(20).astype(np.float32), np.linspace(-3, 5, 7, dtype=np.float32)
    probability, log_probability = softmax(logits)
    leaf = torch.from_numpy(logits).requires_grad_()
    each = torch.nn.functional.cross_entropy(leaf, torch.from_numpy(target), reduction="none")
    np.testing.assert_allclose(cross_entropy(log_probability, target), each.detach().numpy(), rtol=1e-5)
    (by_entropy,) = torch.autograd.grad((torch.from_numpy(weight) * each).mean(), leaf)
    gradient = cross_entropy_gradient(probability, target, weight)
    np.testing.assert_allclose(gradient, by_entropy.numpy(), rtol=1e-4, atol=1e-8)
    (by_value,) = torch.autograd.grad((leaf.softmax(1) @ torch.from_numpy(support)).sum(), leaf)
    np.testing.assert_allclose(value_gradient(probability, support), by_value.numpy(), rtol=1e-4, atol=1e-6)


def test_policy_gradient_by_hand() -> None:
    """0.3 (1^2 + 2^2) / 2 has the gradient 0.3 u; at u = (1, -2) the tanh's slopes are 1 - tanh(u)^2."""
    slopes = [4 / (exp(1) + exp(-1)) ** 2, 4 / (exp(2) + exp(-2)) ** 2]
    gradient = policy_gradient(floats([1, -2]), floats([0.5, 3]), 0.3)
    np.testing.assert_allclose(gradient, [[0.3 - 0.5 * slopes[0], -0.6 - 3 * slopes[1]]], rtol=1e-5)


ONE, TWO = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (cross_entropy, (TWO, ONE)),
        (cross_entropy_gradient, (TWO, TWO, TWO)),
        (value_gradient, (TWO, TWO)),
        (policy_gradient, (TWO, ONE, 0.1)),
    ],
)
def test_wrong_ranks_are_refused(rule: object, arguments: tuple[object, ...]) -> None:
    assert callable(rule)
    with pytest.raises(AssertionError, match="its rank must be"):
        rule(*arguments)
