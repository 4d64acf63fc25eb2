"""Actions of a Gaussian policy: the greedy one by hand, samples by their frequencies."""

import numpy as np

from headrace.algorithms.sac.exploration import SquashedGaussian, greedy

SAMPLES = 40_000


def test_greedy_is_the_tanh_of_the_mean() -> None:
    action = greedy(np.array([[0.0, 1.0, 5.0, -5.0], [-1.0, 20.0, 0.0, 0.0]], np.float32))
    np.testing.assert_allclose(action, [[0.0, 0.76159416], [-0.76159416, 1.0]], rtol=1e-6)
    assert action.dtype == np.float32


def test_samples_have_the_policy_s_mean_and_deviation_before_the_tanh() -> None:
    mean, sigma = (0.3, -0.5), (0.4, 0.1)
    output = np.tile(np.array([*mean, *np.log(sigma)], np.float32), (SAMPLES, 1))
    action = SquashedGaussian([1.0] * SAMPLES, 7).choose(output)
    assert action.shape == (SAMPLES, 2)
    assert action.dtype == np.float32
    u = np.arctanh(action.astype(np.float64))
    standard_error = np.array(sigma) / SAMPLES**0.5
    assert (np.abs(u.mean(0) - mean) < 4 * standard_error).all()
    assert (np.abs(u.std(0) - sigma) < 4 * standard_error / 2**0.5).all()


def test_scale_multiplies_each_environment_s_deviation() -> None:
    output = np.array([[0.2, 0.0], [0.2, 0.0]], np.float32)
    half, none = SquashedGaussian([0.5, 0.0], 3), SquashedGaussian([1.0, 1.0], 3)
    scaled, full = np.arctanh(half.choose(output)), np.arctanh(none.choose(output))  # of the same noise
    np.testing.assert_allclose(scaled[0] - 0.2, (full[0] - 0.2) / 2, rtol=1e-5)
    np.testing.assert_allclose(scaled[1], 0.2, rtol=1e-6)


def test_log_deviations_are_clipped() -> None:
    rows = np.array([[0.1, -1e9], [0.1, 1e9]] * 500, np.float32)
    action = SquashedGaussian([1.0] * 1000, 0).choose(rows)
    np.testing.assert_allclose(action[::2], np.tanh(0.1), rtol=1e-6)  # exp(-20) of noise
    assert np.isfinite(action).all()
    # exp(2) = 7.39: P(|tanh| > 0.995) = P(|0.1 + 7.39 z| > 2.994) = 0.685
    assert 0.62 < (np.abs(action[1::2]) > 0.995).mean() < 0.75


def test_same_seed_same_actions() -> None:
    output = np.zeros((3, 4), np.float32)
    first, second, other = (SquashedGaussian([1.0] * 3, seed) for seed in ([4, 0], [4, 0], [4, 3]))
    one = first.choose(output)
    np.testing.assert_array_equal(one, second.choose(output))
    assert (one != other.choose(output)).all()
    assert (one != first.choose(output)).all()
