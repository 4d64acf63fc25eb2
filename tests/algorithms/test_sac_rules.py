"""SAC's rules against numbers worked out by hand, numerical integration and torch's gradients."""

from math import exp, log, pi

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.algorithms.sac.rules import (
    Sample,
    policy_gradient,
    sample,
    smaller_gradient,
    soft_target,
    squashed_log_probability,
    temperature_gradient,
)
from headrace.types import Array


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_sample_by_hand() -> None:
    """Means 0.25 and 0; a log standard deviation above the range is 2, one below it -20."""
    action, _, spread = sample(floats([0.25, 0, log(0.5), 3], [0, 0, -25, 2]), floats([1, -2], [0, 1]))
    np.testing.assert_allclose(spread, [[0.5, -2 * exp(2)], [0, exp(2)]], rtol=1e-6)
    np.testing.assert_allclose(action, [[np.tanh(0.75), -1], [0, np.tanh(exp(2))]], rtol=1e-6)


def test_log_probability_by_hand() -> None:
    """At noise 0 and sigma 1, a = tanh(0) = 0: log N(0; 0, 1) = -0.918939, and the tanh's slope is 1.

    At noise 1, sigma 1/2 and mean 0, u = 1/2: -0.918939 - 0.5 + 0.693147 - log(1 - tanh(1/2)^2), where tanh(1/2) is
    0.462117 and the logarithm -0.240229.
    """
    noise, sigma = floats([0], [1]), floats([1], [0.5])
    log_probability = squashed_log_probability(noise, np.log(sigma), sigma * noise)
    np.testing.assert_allclose(log_probability, [-0.918939, -0.485562], atol=2e-6)


def test_log_probability_is_summed_over_dimensions() -> None:
    summed = squashed_log_probability(floats([0, 1]), floats([0, log(0.5)]), floats([0, 0.5]))
    np.testing.assert_allclose(summed, [-0.918939 - 0.485562], atol=2e-6)


@pytest.mark.parametrize(("mean", "sigma"), [(0.0, 1.0), (0.8, 0.3), (-1.5, 0.7), (0.3, 2.5)])
def test_density_over_actions_integrates_to_one(mean: float, sigma: float) -> None:
    """By the trapezoidal rule over a in (-1, 1); the density is a function of the action alone."""
    u = np.linspace(-12, 12, 200_001)
    action = np.tanh(u)
    noise = ((u - mean) / sigma)[:, None]
    density = np.exp(squashed_log_probability(noise, np.full((len(u), 1), log(sigma)), u[:, None]))  # type: ignore[arg-type]

    def integral(values: Array, over: Array) -> float:
        return float((np.diff(over) * (values[1:] + values[:-1]) / 2).sum())

    assert integral(density, action) == pytest.approx(1, abs=1e-4)
    # E[a] under the density is that under the normal distribution of u
    normal = np.exp(-0.5 * noise[:, 0] ** 2) / (sigma * (2 * pi) ** 0.5)
    assert integral(density * action, action) == pytest.approx(integral(normal * action, u), abs=1e-4)


@pytest.mark.parametrize("u", [15.0, -15.0, 40.0, -40.0])
def test_log_probability_stays_finite_where_the_tanh_is_one(u: float) -> None:
    """log(1 - tanh(u)^2) is -2 (|u| - log 2) there; in float32, 1 - tanh(u)^2 is 0."""
    zero = floats([0])
    log_probability = squashed_log_probability(zero, zero, floats([u]))
    assert log_probability.item() == pytest.approx(-0.918939 + 2 * (abs(u) - log(2)), rel=1e-6)


def test_soft_target_by_hand() -> None:
    """3 + 0.5 (min(2, 4) - 0.1 * -2) = 4.1; the second transition terminated."""
    target = soft_target(
        reward=floats(3, 7),
        discount=floats(0.5, 0),
        q_tpn=floats([2, 4], [1, -9]),
        log_probability=floats(-2, 5),
        temperature=0.1,
    )
    np.testing.assert_allclose(target, [4.1, 7], rtol=1e-6)


def test_smaller_gradient_by_hand() -> None:
    np.testing.assert_array_equal(smaller_gradient(floats([1, 2], [0, -3], [4, 4])), [[1, 0], [0, 1], [1, 0]])


def test_policy_gradient_is_torch_s() -> None:
    """Of the mean of alpha log pi - Q for Q = c . a, with log standard deviations inside and outside of the range."""
    random = np.random.default_rng(0)
    output, noise, c = (random.standard_normal(shape).astype(np.float32) for shape in ((50, 6), (50, 3), (50, 3)))
    output[:, 3:] *= 3  # some are above 2
    output[:5, 3] = -21
    leaf = torch.from_numpy(output.astype(np.float64)).requires_grad_()
    mean, log_sigma = leaf.chunk(2, 1)
    log_sigma = log_sigma.clamp(-20, 2)
    u = mean + log_sigma.exp() * torch.from_numpy(noise)
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), without the differences of nearly equal numbers
    log_slope = 2 * (log(2) - u - torch.nn.functional.softplus(-2 * u))
    log_pi = (-log_sigma - log_slope).sum(1)
    torch.autograd.backward((0.3 * log_pi - (torch.from_numpy(c) * u.tanh()).sum(1)).mean())
    assert leaf.grad is not None
    gradient = policy_gradient(output, sample(output, noise), c, 0.3)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert (gradient[:5, 3] == 0).all()


@pytest.mark.parametrize(
    ("log_probability", "gradient"),
    [
        ([1.0, 2.0], -0.5),  # entropy -1.5, below the target of -1: log alpha must rise
        ([0.0, 1.0], 0.5),  # entropy -0.5, above it
        ([0.5, 1.5], 0.0),
    ],
)
def test_temperature_gradient_by_hand(log_probability: list[float], gradient: float) -> None:
    assert temperature_gradient(floats(*log_probability), -1.0) == pytest.approx(gradient)


def test_entropy_of_a_narrow_policy_is_the_normal_s() -> None:
    """Near a = 0 the tanh is the identity: the mean of -log pi is log(sigma sqrt(2 pi e))."""
    noise = np.random.default_rng(0).standard_normal((100_000, 1)).astype(np.float32)
    sigma = 0.01
    log_probability = squashed_log_probability(noise, np.full_like(noise, log(sigma)), sigma * noise)
    assert -log_probability.mean() == pytest.approx(log(sigma) + 0.5 * log(2 * pi * exp(1)), abs=0.01)


ONE, TWO = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (sample, (ONE, TWO)),
        (squashed_log_probability, (TWO, TWO, ONE)),
        (soft_target, (TWO, ONE, TWO, ONE, 0.1)),
        (soft_target, (ONE, ONE, ONE, ONE, 0.1)),
        (soft_target, (ONE, ONE, TWO, TWO, 0.1)),
        (smaller_gradient, (ONE,)),
        (policy_gradient, (TWO, Sample(TWO, ONE, TWO), ONE, 0.1)),
        (temperature_gradient, (TWO, -1.0)),
    ],
)
def test_wrong_ranks_are_refused(rule: object, arguments: tuple[object, ...]) -> None:
    assert callable(rule)
    with pytest.raises(AssertionError, match="its rank must be"):
        rule(*arguments)
