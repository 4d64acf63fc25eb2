"""Update rules against numbers worked out by hand."""

from collections.abc import Callable
from math import log

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.algorithms.targets import (
    Loss,
    critic_gradient,
    critic_loss,
    double_q_target,
    huber,
    project,
    q_gradient,
    q_target,
    softmax,
    squared,
    td_error,
)


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


Q_TPN = floats([1, 5, 3], [2, -1, 0])
SELECTOR = floats([0, 1, 2], [9, 8, 7])
REWARD = floats(1, -0.5)
DISCOUNT = floats(0.9, 0)  # the second episode terminated
ACTION = np.array([1, 0])


def test_q_target_takes_the_largest_value_of_the_next_state() -> None:
    np.testing.assert_allclose(q_target(REWARD, DISCOUNT, Q_TPN), [1 + 0.9 * 5, -0.5], rtol=1e-6)


def test_double_q_target_takes_the_value_of_the_selected_action() -> None:
    np.testing.assert_allclose(double_q_target(REWARD, DISCOUNT, Q_TPN, SELECTOR), [1 + 0.9 * 3, -0.5], rtol=1e-6)


def test_double_q_target_equals_q_target_where_the_target_network_selects() -> None:
    np.testing.assert_array_equal(double_q_target(REWARD, DISCOUNT, Q_TPN, Q_TPN), q_target(REWARD, DISCOUNT, Q_TPN))


def test_td_error_is_target_minus_the_value_of_the_action() -> None:
    np.testing.assert_array_equal(td_error(floats([1, 2], [3, 4]), ACTION, floats(5, 1)), [3, -2])


def test_huber_is_quadratic_inside_one_and_linear_outside() -> None:
    np.testing.assert_array_equal(huber(floats(0.5, -0.5, 3, -3)).value, [0.125, 0.125, 2.5, 2.5])


def test_huber_slope_is_the_clipped_error() -> None:
    np.testing.assert_array_equal(huber(floats(0.25, -4, 7)).slope, [0.25, -1, 1])


def test_squared() -> None:
    value, slope = squared(floats(3, -2))
    np.testing.assert_array_equal(value, [4.5, 2])
    np.testing.assert_array_equal(slope, [3, -2])


def test_q_gradient_is_that_of_the_action_taken() -> None:
    gradient = q_gradient(floats([1, 2], [3, 4]), ACTION, slope=floats(0.5, -1), weight=floats(1, 0.5))
    np.testing.assert_array_equal(gradient, [[0, -0.25], [0.25, 0]])


@pytest.mark.parametrize("loss", [huber, squared])
def test_q_gradient_is_torch_s(loss: Callable[[NDArray[np.float32]], Loss]) -> None:
    random = np.random.default_rng(0)
    q_t, target, weight = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 3), 64, 64))
    target *= 2  # some errors are beyond 1
    action = random.integers(0, 3, 64)
    leaf = torch.from_numpy(q_t).requires_grad_()
    chosen = leaf.gather(1, torch.from_numpy(action)[:, None])[:, 0]
    function = torch.nn.functional.huber_loss if loss is huber else torch.nn.functional.mse_loss
    each = function(chosen, torch.from_numpy(target), reduction="none") / (1 if loss is huber else 2)
    (torch.from_numpy(weight) * each).mean().backward()
    value, slope = loss(td_error(q_t, action, target))
    np.testing.assert_allclose(value, each.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert leaf.grad is not None
    np.testing.assert_allclose(q_gradient(q_t, action, slope, weight), leaf.grad.numpy(), rtol=1e-5, atol=1e-8)


def test_critic_loss_and_its_gradient_by_hand() -> None:
    """Losses w delta^2 / 2 are 0.5 and 2 for the first transition, 4 and 0 for the second."""
    error, weight = floats([1, -2], [4, 0]), floats(1, 0.5)
    assert critic_loss(error, weight) == 3.25
    np.testing.assert_array_equal(critic_gradient(error, weight), [[-0.5, 1], [-1, 0]])


def test_softmax_by_hand() -> None:
    probability, log_probability = softmax(floats([0, log(3)], [1000, -1000]))
    np.testing.assert_allclose(probability, [[0.25, 0.75], [1, 0]], rtol=1e-6, atol=1e-37)
    np.testing.assert_allclose(log_probability, [[log(0.25), log(0.75)], [0, -2000]], atol=1e-6)


ATOMS = floats(-1, 0, 1, 2)
P = (0.1, 0.2, 0.3, 0.4)


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        # -1, 0, 1, 2 stay where they are
        (0.0, 1.0, (0.1, 0.2, 0.3, 0.4)),
        # 0, 1, 2, 3: each one atom up, the last beyond the end
        (1.0, 1.0, (0.0, 0.1, 0.2, 0.7)),
        # -3, -2, -1, 0: three at or beyond the lower end
        (-2.0, 1.0, (0.6, 0.4, 0.0, 0.0)),
        # -0.75, 0.25, 1.25, 2.25: a quarter of each goes to the next atom, the last beyond the end
        (0.25, 1.0, (0.075, 0.025 + 0.15, 0.05 + 0.225, 0.075 + 0.4)),
        # -0.5, 0, 0.5, 1: halves of the first and third
        (0.0, 0.5, (0.05, 0.05 + 0.2 + 0.15, 0.15 + 0.4, 0.0)),
        # gamma^n = 0.9^2, R = 0.19: -0.62, 0.19, 1, 1.81
        (0.19, 0.81, (0.062, 0.038 + 0.162, 0.038 + 0.3 + 0.076, 0.324)),
        # terminated: all of it at R, between atoms, on one, and at or beyond either end
        (0.25, 0.0, (0.0, 0.75, 0.25, 0.0)),
        (1.0, 0.0, (0.0, 0.0, 1.0, 0.0)),
        (2.0, 0.0, (0.0, 0.0, 0.0, 1.0)),
        (7.0, 0.0, (0.0, 0.0, 0.0, 1.0)),
        (-7.0, 0.0, (1.0, 0.0, 0.0, 0.0)),
    ],
)
def test_projection(reward: float, discount: float, expected: tuple[float, ...]) -> None:
    projected = project(ATOMS, floats(P), floats(reward), floats(discount))
    assert projected.dtype == np.float32
    np.testing.assert_allclose(projected, [expected], atol=1e-6)


def test_projection_equals_the_paper_s_loops_and_keeps_sums_and_means() -> None:
    random = np.random.default_rng(1)
    support = np.linspace(-150, 150, 51).astype(np.float32)
    p = random.dirichlet(np.ones(51), 64).astype(np.float32)
    reward = random.uniform(-60, 60, 64).astype(np.float32)
    discount = random.choice([0, 0.99, 0.99**5], 64).astype(np.float32)
    expected = np.zeros((64, 51))
    for row in range(64):
        for j in range(51):
            b = (min(150.0, max(-150.0, reward[row] + discount[row] * support[j])) + 150) / 6
            lower, upper = int(np.floor(b)), int(np.ceil(b))
            if lower == upper:  # where the paper's algorithm would lose it
                expected[row, lower] += p[row, j]
            else:
                expected[row, lower] += p[row, j] * (upper - b)
                expected[row, upper] += p[row, j] * (b - lower)
    before = p.copy()
    projected = project(support, p, reward, discount)
    np.testing.assert_allclose(projected, expected, atol=1e-5)
    np.testing.assert_allclose(projected.sum(1), np.ones(64), rtol=1e-5)
    np.testing.assert_array_equal(p, before)  # a pure function
    inside = np.abs(reward) + discount * 150 <= 150  # nothing of these rows is clipped
    assert inside.any()
    np.testing.assert_allclose((projected @ support)[inside], (reward + discount * (p @ support))[inside], atol=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: q_target(REWARD[:, None], DISCOUNT, Q_TPN),
        lambda: q_target(REWARD, DISCOUNT, Q_TPN[0]),
        lambda: double_q_target(REWARD, DISCOUNT[:, None], Q_TPN, SELECTOR),
        lambda: double_q_target(REWARD, DISCOUNT, Q_TPN, SELECTOR[0]),
        lambda: td_error(Q_TPN, ACTION[:, None], REWARD),
        lambda: td_error(Q_TPN, ACTION, REWARD[:, None]),
        lambda: q_gradient(Q_TPN, ACTION, REWARD, DISCOUNT[:, None]),
        lambda: q_gradient(Q_TPN[0], ACTION, REWARD, DISCOUNT),
        lambda: critic_loss(REWARD, REWARD),
        lambda: critic_loss(Q_TPN, Q_TPN),
        lambda: critic_gradient(REWARD, REWARD),
        lambda: critic_gradient(Q_TPN, Q_TPN),
        lambda: softmax(REWARD),
        lambda: project(ATOMS, floats(P), floats([1]), floats(0.9)),
        lambda: project(ATOMS, floats(*P), floats(1), floats(0.9)),
    ],
)
def test_an_input_of_another_rank_is_refused_instead_of_broadcast(call: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="its rank must be"):
        call()
