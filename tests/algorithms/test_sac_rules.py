"""SAC's rules against numbers worked out by hand and against numerical integration."""

from math import exp, log, pi

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace.algorithms.sac.rules import gaussian, soft_target, squashed_log_probability, temperature_loss


def test_gaussian_splits_and_clips() -> None:
    mean, log_sigma = gaussian(torch.tensor([[30.0, -30.0, 0.5, 3.0], [1.0, 2.0, -25.0, 2.0]]))
    assert mean.tolist() == [[30.0, -30.0], [1.0, 2.0]]
    assert log_sigma.tolist() == [[0.5, 2.0], [-20.0, 2.0]]


def test_log_probability_by_hand() -> None:
    """At noise 0 and sigma 1, a = tanh(0) = 0: log N(0; 0, 1) = -0.918939, and the tanh's slope is 1.

    At noise 1, sigma 1/2 and mean 0, u = 1/2: -0.918939 - 0.5 + 0.693147 - log(1 - tanh(1/2)^2), where tanh(1/2) is
    0.462117 and the logarithm -0.240229.
    """
    noise, sigma = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [0.5]])
    log_probability = squashed_log_probability(noise, sigma.log(), sigma * noise)
    np.testing.assert_allclose(log_probability, [-0.918939, -0.485562], atol=2e-6)


def test_log_probability_is_summed_over_dimensions() -> None:
    noise = torch.tensor([[0.0, 1.0]])
    log_sigma = torch.tensor([[0.0, log(0.5)]])
    summed = squashed_log_probability(noise, log_sigma, torch.tensor([[0.0, 0.5]]))
    np.testing.assert_allclose(summed, [-0.918939 - 0.485562], atol=2e-6)


@pytest.mark.parametrize(("mean", "sigma"), [(0.0, 1.0), (0.8, 0.3), (-1.5, 0.7), (0.3, 2.5)])
def test_density_over_actions_integrates_to_one(mean: float, sigma: float) -> None:
    """By the trapezoidal rule over a in (-1, 1); the density is a function of the action alone."""
    u = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    action = u.tanh()
    density = squashed_log_probability(
        ((u - mean) / sigma)[:, None], torch.full((len(u), 1), log(sigma), dtype=torch.float64), u[:, None]
    ).exp()
    assert torch.trapezoid(density, action).item() == pytest.approx(1, abs=1e-4)
    # E[a] under the density is that under the normal distribution of u
    normal = (-0.5 * ((u - mean) / sigma).square()).exp() / (sigma * (2 * pi) ** 0.5)
    expected = torch.trapezoid(normal * action, u).item()
    assert torch.trapezoid(density * action, action).item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("u", [15.0, -15.0, 40.0, -40.0])
def test_log_probability_stays_finite_where_the_tanh_is_one(u: float) -> None:
    """log(1 - tanh(u)^2) is -2 (|u| - log 2) there; in float32, 1 - tanh(u)^2 is 0."""
    value = torch.tensor([[u]], requires_grad=True)
    zero = torch.zeros(1, 1)
    log_probability = squashed_log_probability(zero, zero, value)
    assert log_probability.item() == pytest.approx(-0.918939 + 2 * (abs(u) - log(2)), rel=1e-6)
    torch.autograd.backward(log_probability.sum())
    assert value.grad is not None
    assert value.grad.item() == pytest.approx(2 * np.sign(u))


def test_soft_target_by_hand() -> None:
    """3 + 0.5 (min(2, 4) - 0.1 * -2) = 4.1; the second transition terminated."""
    target = soft_target(
        reward=torch.tensor([3.0, 7.0]),
        discount=torch.tensor([0.5, 0.0]),
        q_tpn=torch.tensor([[2.0, 1.0], [4.0, -9.0]]),
        log_probability=torch.tensor([-2.0, 5.0]),
        temperature=torch.tensor(0.1),
    )
    np.testing.assert_allclose(target, [4.1, 7.0])


@pytest.mark.parametrize(
    ("log_probability", "gradient"),
    [
        ([1.0, 2.0], -0.5),  # entropy -1.5, below the target of -1: log alpha must rise
        ([0.0, 1.0], 0.5),  # entropy -0.5, above it
        ([0.5, 1.5], 0.0),
    ],
)
def test_temperature_loss_by_hand(log_probability: list[float], gradient: float) -> None:
    log_temperature = torch.tensor(log(0.2), requires_grad=True)
    loss = temperature_loss(log_temperature, torch.tensor(log_probability, requires_grad=True), -1.0)
    assert loss.item() == pytest.approx(log(0.2) * gradient)
    torch.autograd.backward(loss)
    assert log_temperature.grad is not None
    assert log_temperature.grad.item() == pytest.approx(gradient)


def test_entropy_of_a_narrow_policy_is_the_normal_s() -> None:
    """Near a = 0 the tanh is the identity: the mean of -log pi is log(sigma sqrt(2 pi e))."""
    noise = torch.randn(100_000, 1, generator=torch.Generator().manual_seed(0))
    sigma = 0.01
    log_probability = squashed_log_probability(noise, torch.full_like(noise, log(sigma)), sigma * noise)
    assert -log_probability.mean().item() == pytest.approx(log(sigma) + 0.5 * log(2 * pi * exp(1)), abs=0.01)


ONE, TWO, SCALAR = torch.zeros(2), torch.zeros(2, 2), torch.tensor(0.0)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (gaussian, (ONE,)),
        (squashed_log_probability, (TWO, TWO, ONE)),
        (soft_target, (TWO, ONE, TWO, ONE, SCALAR)),
        (soft_target, (ONE, ONE, ONE, ONE, SCALAR)),
        (soft_target, (ONE, ONE, TWO, TWO, SCALAR)),
        (soft_target, (ONE, ONE, TWO, ONE, ONE)),
        (temperature_loss, (ONE, ONE, -1.0)),
        (temperature_loss, (SCALAR, TWO, -1.0)),
    ],
)
def test_wrong_ranks_are_refused(rule: object, arguments: tuple[Tensor, ...]) -> None:
    assert callable(rule)
    with pytest.raises(AssertionError, match="its rank must be"):
        rule(*arguments)
