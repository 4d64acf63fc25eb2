"""TD3's rules against numbers worked out by hand and torch's gradients."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.algorithms.td3.rules import clipped_double_q_target, policy_gradient, smoothed_action


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_smoothed_action_by_hand() -> None:
    """Noise is clipped to +-0.5 first, then its sum with the action to +-1."""
    action = smoothed_action(floats([0.2, 0.2, 0.9], [-0.2, -0.7, 0]), floats([0.3, 2, 0.4], [-2, -0.4, 0.1]), 0.5)
    np.testing.assert_allclose(action, [[0.5, 0.7, 1], [-0.7, -1, 0.1]], rtol=1e-6)
    assert action.dtype == np.float32


def test_clipped_double_q_target_by_hand() -> None:
    """3 + 0.5 * min(2, 4) = 4 and -1 + 0.9 * min(1, -9) = -9.1; the third transition terminated."""
    target = clipped_double_q_target(floats(3, -1, 7), floats(0.5, 0.9, 0), floats([2, 4], [1, -9], [5, 6]))
    np.testing.assert_allclose(target, [4, -9.1, 7], rtol=1e-6)


def test_policy_gradient_is_torch_s() -> None:
    """Of -1/B sum Q for Q = sum_j c_j a_j^2, whose gradient by a is 2 c a."""
    random = np.random.default_rng(0)
    action, c = random.standard_normal((2, 10, 3)).astype(np.float32)
    leaf = torch.from_numpy(action).requires_grad_()
    torch.autograd.backward(-(torch.from_numpy(c) * leaf.square()).sum(1).mean())
    assert leaf.grad is not None
    np.testing.assert_allclose(policy_gradient(2 * c * action), leaf.grad.numpy(), rtol=1e-5)


ONE, TWO = np.zeros(2, np.float32), np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (smoothed_action, (TWO, ONE, 0.5)),
        (smoothed_action, (ONE, TWO, 0.5)),
        (clipped_double_q_target, (TWO, ONE, TWO)),
        (clipped_double_q_target, (ONE, TWO, TWO)),
        (clipped_double_q_target, (ONE, ONE, ONE)),
        (policy_gradient, (ONE,)),
    ],
)
def test_wrong_ranks_are_refused(rule: object, arguments: tuple[object, ...]) -> None:
    assert callable(rule)
    with pytest.raises(AssertionError, match="its rank must be"):
        rule(*arguments)
