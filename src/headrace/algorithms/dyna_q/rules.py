"""The world model's rules as pure functions.

Shapes: N members, B transitions for each, states [O]. A member's output [B, O + 2] is the scaled change of the state,
the scaled reward and the logit of termination; a target [B, O + 1] has no logit. Gradients are those by the output.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.targets import assert_ranks
from headrace.networks.world_model import Prediction

__all__ = ["ModelLoss", "disagreement", "model_loss", "relative_error"]

_SMALLEST_SPREAD = 1e-3
"""Lower limit on the spread of targets, so that a tiny error on nearly constant targets does not count as large."""
_Floats = NDArray[np.float32]


class ModelLoss(NamedTuple):
    """The loss of a world model and its gradient."""

    value: float
    gradient: _Floats  # [N, B, O + 2]


def model_loss(output: _Floats, target: _Floats, done: NDArray[np.bool_], weight: _Floats) -> ModelLoss:
    """L = 1/W sum_nb w_nb (1/(O + 1) sum_i (y_nbi - target_nbi)^2 + log(1 + e^l_nb) - d_nb l_nb), l the logit.

    The last two terms are the binary cross-entropy of the termination d [N, B]. W is the members' mean of sum_b w_nb,
    for importance weights w [N, B]; `target` is [N, B, O + 1]. dL/dy_nbi = 2 w_nb (y_nbi - target_nbi) / ((O + 1) W),
    and dL/dl_nb = w_nb (sigmoid(l_nb) - d_nb) / W.
    """
    assert_ranks(3, output, target)
    assert_ranks(2, done, weight)
    share = weight / weight.sum(1).mean()
    logit = output[..., -1]
    gradient = np.empty_like(output)
    error = np.subtract(output[..., :-1], target, out=gradient[..., :-1])
    squared = np.einsum("nbi,nbi->nb", error, error) / error.shape[-1]
    termination = np.maximum(logit, 0) + np.log1p(np.exp(-np.abs(logit))) - done * logit
    value = float((share * (squared + termination)).sum())
    error *= (2 / error.shape[-1] * share)[..., None]
    gradient[..., -1] = share * (_sigmoid(logit) - done)
    return ModelLoss(value, gradient)


def relative_error(output: _Floats, target: _Floats, weight: _Floats) -> float:
    """The mean |error| of the members' mean prediction, relative to that of predicting 0, the targets' mean.

    `output` is [N, B, O + 2], `target` [B, O + 1], and `weight` [B] the transitions' importance weights.
    """
    assert_ranks(3, output)
    assert_ranks(2, target)
    assert_ranks(1, weight)
    missed = weight @ np.abs(output[..., :-1].mean(0) - target).sum(1)
    spread = weight @ np.abs(target).sum(1)
    return float(missed / max(spread, _SMALLEST_SPREAD * weight.sum()))


def disagreement(prediction: Prediction, deviation: _Floats) -> _Floats:
    """Disagreement of the members [B]: the largest of three standard deviations over the members.

    They are those of the change, averaged over its features, and of the reward, both in units of their standard
    `deviation` [O + 1] in the data, and that of the probability of termination in units of 0.5, its maximum.
    """
    assert_ranks(3, prediction.change)
    assert_ranks(2, prediction.reward, prediction.done)
    assert_ranks(1, deviation)
    change = (prediction.change.std(0) / deviation[:-1]).mean(1)
    reward = prediction.reward.std(0) / deviation[-1]
    termination = _sigmoid(prediction.done).std(0) / 0.5
    largest: _Floats = np.max((change, reward, termination), 0)
    return largest


def _sigmoid(logit: _Floats) -> _Floats:
    """1 / (1 + e^-l); e^-|l| does not overflow."""
    small = np.exp(-np.abs(logit))
    probability: _Floats = np.where(logit < 0, small, 1) / (1 + small)
    return probability
