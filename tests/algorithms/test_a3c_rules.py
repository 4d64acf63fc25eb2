"""A3C's returns, probabilities and entropies by hand."""

from math import exp, log, nan, pi

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.algorithms.a3c.rules import (
    categorical_entropy,
    categorical_gradient,
    categorical_log_probability,
    gaussian_entropy,
    gaussian_gradient,
    gaussian_log_probability,
    n_step_returns,
)


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def column(*values: float) -> NDArray[np.float32]:
    return floats(*values)[:, None]


@pytest.mark.parametrize(
    ("discount", "bootstrap", "expected"),
    [
        # The rollout ends in the middle of an episode: 3 + 0.5 * 8 = 7, 2 + 0.5 * 7 = 5.5, 1 + 0.5 * 5.5 = 3.75.
        ((0.5, 0.5, 0.5), (nan, nan, 8.0), (3.75, 5.5, 7.0)),
        # It terminated at the second step: what comes after is another episode's.
        ((0.5, 0.0, 0.5), (nan, nan, 8.0), (2.0, 2.0, 7.0)),
        # It was truncated there, in a state worth 4: 2 + 0.5 * 4 = 4, 1 + 0.5 * 4 = 3.
        ((0.5, 0.5, 0.5), (nan, 4.0, 8.0), (3.0, 4.0, 7.0)),
        # It terminated at the last step: the value of the next episode's first state must not count.
        ((0.5, 0.5, 0.0), (nan, nan, 8.0), (2.75, 3.5, 3.0)),
    ],
)
def test_returns(discount: tuple[float, ...], bootstrap: tuple[float, ...], expected: tuple[float, ...]) -> None:
    returns = n_step_returns(column(1.0, 2.0, 3.0), column(*discount), column(*bootstrap))
    np.testing.assert_allclose(returns, column(*expected), rtol=1e-6)


def test_returns_equal_a_naive_twin() -> None:
    random = np.random.default_rng(0)
    shape = (12, 5)
    reward = random.standard_normal(shape).astype(np.float32)
    terminated = random.random(shape) < 0.15
    truncated = (random.random(shape) < 0.15) & ~terminated
    value = random.standard_normal(shape).astype(np.float32)  # of what each step led to
    last = np.arange(12)[:, None] == 11
    returns = n_step_returns(
        reward, np.where(terminated, 0, 0.9).astype(np.float32), np.where(truncated | last, value, np.float32(nan))
    )
    for t in range(12):
        for e in range(5):
            expected = 0.0
            for step in range(t, 12):
                expected += 0.9 ** (step - t) * reward[step, e]
                if terminated[step, e]:
                    break
                if truncated[step, e] or step == 11:
                    expected += 0.9 ** (step - t + 1) * value[step, e]
                    break
            assert returns[t, e].item() == pytest.approx(expected, abs=1e-5)


def test_categorical() -> None:
    logits = floats([log(1.0), log(3.0)], [log(2.0), log(2.0)])  # 1/4 and 3/4, 1/2 and 1/2
    log_probability = categorical_log_probability(logits, np.array([1, 0]))
    assert log_probability.tolist() == pytest.approx([log(0.75), log(0.5)])
    entropy = -(0.25 * log(0.25) + 0.75 * log(0.75))
    assert categorical_entropy(logits).tolist() == pytest.approx([entropy, log(2)])


def test_gaussian() -> None:
    log_sigma = floats(0, log(2.0))
    density = exp(-0.5) / (2 * pi) ** 0.5 * exp(-0.5) / (2 * (2 * pi) ** 0.5)
    log_probability = gaussian_log_probability(floats([0, 1]), log_sigma, floats([1, -1]))  # a deviation from each mean
    assert log_probability.tolist() == pytest.approx([log(density)])
    assert gaussian_entropy(log_sigma) == pytest.approx(log(2 * pi) + 1 + log(2))


def test_categorical_gradient_is_that_of_torch_s_distribution() -> None:
    random = np.random.default_rng(0)
    logits, advantage = (random.standard_normal(shape).astype(np.float32) for shape in ((30, 4), 30))
    action = random.integers(0, 4, 30)
    leaf = torch.from_numpy(logits).requires_grad_()
    policy = torch.distributions.Categorical(logits=leaf)
    gain = torch.from_numpy(advantage) * policy.log_prob(torch.from_numpy(action))
    torch.autograd.backward(-(gain + 0.2 * policy.entropy()).mean())
    assert leaf.grad is not None
    gradient = categorical_gradient(logits, action, advantage, 0.2)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-4, atol=1e-7)


def test_gaussian_gradients_are_those_of_torch_s_distribution() -> None:
    random = np.random.default_rng(0)
    mean, action = random.standard_normal((2, 30, 3)).astype(np.float32)
    advantage, log_sigma = (random.standard_normal(size).astype(np.float32) for size in (30, 3))
    leaves = [torch.from_numpy(each).requires_grad_() for each in (mean, log_sigma)]
    policy = torch.distributions.Normal(leaves[0], leaves[1].exp())
    gain = torch.from_numpy(advantage) * policy.log_prob(torch.from_numpy(action)).sum(1)
    torch.autograd.backward(-(gain + 0.2 * policy.entropy().sum(1)).mean())
    for gradient, leaf in zip(gaussian_gradient(mean, log_sigma, action, advantage, 0.2), leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-4, atol=1e-6)
