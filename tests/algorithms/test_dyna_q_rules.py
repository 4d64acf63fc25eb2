"""The world model's rules against numbers worked out by hand and torch's gradients."""

from math import exp, log

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from headrace.algorithms.dyna_q.rules import disagreement, model_loss, relative_error
from headrace.networks.world_model import Prediction


def floats(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_model_loss_by_hand() -> None:
    """One member, weights 1 and 3, O + 1 = 2.

    Row 0: errors 1 and -2, mean square 5/2; logit 0 of a transition that went on: log 2. Row 1: errors 0 and 4, mean
    square 16/2; logit log 3, so a probability of 3/4, of one that ended: -log 3/4.
    L = (5/2 + log 2 + 3 (8 - log 3/4)) / 4.
    """
    output, target = floats([[1, 0, 0], [5, 4, log(3)]]), floats([[0, 2], [5, 0]])
    loss = model_loss(output, target, np.array([[False, True]]), floats([1, 3]))
    assert loss.value == pytest.approx((2.5 + log(2) + 3 * (8 - log(0.75))) / 4, rel=1e-6)
    expected = [[[1 / 4, -2 / 4, 0.5 / 4], [0, 3 * 4 / 4, 3 * -0.25 / 4]]]
    np.testing.assert_allclose(loss.gradient, expected, atol=1e-6)


def test_model_loss_is_stable_for_large_logits() -> None:
    """A logit of -200 or 200 costs 0 or 200, with a gradient of 0 or 1 times the share 1/2."""
    output = np.zeros((1, 2, 2), np.float32)
    output[0, :, 1] = -200, 200
    loss = model_loss(output, np.zeros((1, 2, 1), np.float32), np.zeros((1, 2), np.bool_), np.ones((1, 2), np.float32))
    assert loss.value == pytest.approx(100)
    np.testing.assert_allclose(loss.gradient[0, :, 1], [0, 0.5], atol=1e-7)


def test_model_loss_has_torch_s_value_and_gradient() -> None:
    random = np.random.default_rng(0)
    output, target = (3 * random.standard_normal(shape).astype(np.float32) for shape in ((3, 40, 6), (3, 40, 5)))
    done, weight = random.random((3, 40)) < 0.3, random.uniform(0, 1, (3, 40)).astype(np.float32)
    y, w = torch.tensor(output, requires_grad=True), torch.from_numpy(weight)
    squared = (y[..., :-1] - torch.from_numpy(target)).square().mean(-1)
    ended = torch.from_numpy(done).float()
    termination = functional.binary_cross_entropy_with_logits(y[..., -1], ended, reduction="none")
    expected = ((squared + termination) * w).sum() / w.sum(1).mean()
    expected.backward()
    found = model_loss(output, target, done, weight)
    assert found.value == pytest.approx(expected.item(), rel=1e-5)
    assert y.grad is not None
    np.testing.assert_allclose(found.gradient, y.grad.numpy(), rtol=1e-5, atol=1e-8)


def test_relative_error_by_hand() -> None:
    """Members predict 1 and 3, so 2, of targets 4 and 0, with weights 1 and 3: (1 * 2 + 3 * 2) / (1 * 4 + 3 * 0)."""
    output = np.zeros((2, 2, 2), np.float32)
    output[:, :, 0] = [[1], [3]]
    output[..., 1] = 99  # the logit does not count
    assert relative_error(output, floats([4], [0]), floats(1, 3)) == 2
    assert relative_error(output, floats([4], [4]), floats(1, 3)) == 0.5


def test_relative_error_on_constant_targets_is_finite() -> None:
    """The spread of targets, 0, counts as 0.001 for each transition."""
    output = np.full((2, 3, 2), 0.5, np.float32)
    assert relative_error(output, np.zeros((3, 1), np.float32), floats(1, 2, 1)) == pytest.approx(500)


def test_disagreement_by_hand() -> None:
    """Two members; their standard deviation is half their difference.

    Row 0: changes differ by 2 and 4, with deviations 1 and 4 in the data: (1 / 1 + 2 / 4) / 2. Row 1: rewards differ by
    6, with deviation 2: 3 / 2. Row 2: probabilities 1/4 and 3/4 of termination: 0.25 / 0.5.
    """
    change = np.zeros((2, 3, 2), np.float32)
    change[1, 0] = 2, 4
    reward = floats([0, 0, 0], [0, 6, 0])
    done = floats([0, 0, -log(3)], [0, 0, log(3)])
    np.testing.assert_allclose(
        disagreement(Prediction(change, reward, done), floats(1, 4, 2)), [0.75, 1.5, 0.5], rtol=1e-6
    )


def test_disagreement_about_termination_is_at_most_1() -> None:
    done = floats([-1000, 0, 5], [1000, 0, -5])
    prediction = Prediction(np.zeros((2, 3, 1), np.float32), np.zeros((2, 3), np.float32), done)
    probability = 1 / (1 + exp(-5))
    expected = [1, 0, 2 * probability - 1]
    np.testing.assert_allclose(disagreement(prediction, floats(1, 1)), expected, rtol=1e-6)


@pytest.mark.parametrize("wrong", ["target", "done", "weight"])
def test_ranks_are_asserted(wrong: str) -> None:
    arrays = {"target": np.zeros((1, 2, 1), np.float32), "done": np.zeros((1, 2)), "weight": np.ones((1, 2))}
    arrays[wrong] = arrays[wrong][..., None]
    with pytest.raises(AssertionError, match="its rank must be"):
        model_loss(np.zeros((1, 2, 2), np.float32), **arrays)  # type: ignore[arg-type]
