"""Update rules against numbers worked out by hand."""

import torch
from torch import tensor

from headrace.algorithms.targets import double_q_target, huber, q_target, squared, td_error

Q_TPN = tensor([[1.0, 5.0, 3.0], [2.0, -1.0, 0.0]])
SELECTOR = tensor([[0.0, 1.0, 2.0], [9.0, 8.0, 7.0]])
REWARD = tensor([1.0, -0.5])
DISCOUNT = tensor([0.9, 0.0])  # the second episode terminated


def test_q_target_takes_the_largest_value_of_the_next_state() -> None:
    torch.testing.assert_close(q_target(REWARD, DISCOUNT, Q_TPN), tensor([1 + 0.9 * 5, -0.5]))


def test_double_q_target_takes_the_value_of_the_selected_action() -> None:
    torch.testing.assert_close(double_q_target(REWARD, DISCOUNT, Q_TPN, SELECTOR), tensor([1 + 0.9 * 3, -0.5]))


def test_double_q_target_equals_q_target_where_the_target_network_selects() -> None:
    torch.testing.assert_close(double_q_target(REWARD, DISCOUNT, Q_TPN, Q_TPN), q_target(REWARD, DISCOUNT, Q_TPN))


def test_td_error_is_target_minus_the_value_of_the_action() -> None:
    q_t = tensor([[1.0, 2.0], [3.0, 4.0]])
    torch.testing.assert_close(td_error(q_t, tensor([1, 0]), tensor([5.0, 1.0])), tensor([3.0, -2.0]))


def test_huber_is_quadratic_inside_one_and_linear_outside() -> None:
    torch.testing.assert_close(huber(tensor([0.5, -0.5, 3.0, -3.0])), tensor([0.125, 0.125, 2.5, 2.5]))


def test_huber_gradient_is_the_clipped_error() -> None:
    error = tensor([0.25, -4.0, 7.0], requires_grad=True)
    huber(error).sum().backward()
    torch.testing.assert_close(error.grad, tensor([0.25, -1.0, 1.0]))


def test_squared() -> None:
    torch.testing.assert_close(squared(tensor([3.0, -2.0])), tensor([4.5, 2.0]))
