"""Actions are drawn with their probabilities."""

import numpy as np
from scipy import stats

from headrace.algorithms.a3c.sampling import sample_categorical, sample_gaussian

DRAWS = 20_000


def test_categorical() -> None:
    probability = np.array([0.1, 0.2, 0.7])
    logits = np.tile(np.log(probability).astype(np.float32) + 5, (DRAWS, 1))
    action = sample_categorical(logits, np.random.default_rng(0))
    assert action.shape == (DRAWS,)
    counts = np.bincount(action, minlength=3)
    assert stats.chisquare(counts, probability * DRAWS).pvalue > 0.01


def test_gaussian() -> None:
    mean = np.tile(np.array([0.5, -2.0], np.float32), (DRAWS, 1))
    action = sample_gaussian(mean, np.array([0.1, 2.0], np.float32), np.random.default_rng(0))
    assert (action.shape, action.dtype) == ((DRAWS, 2), np.float32)
    assert stats.kstest(action[:, 0], "norm", (0.5, 0.1)).pvalue > 0.01
    assert stats.kstest(action[:, 1], "norm", (-2.0, 2.0)).pvalue > 0.01
