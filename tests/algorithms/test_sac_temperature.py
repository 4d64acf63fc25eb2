"""The temperature by hand: its initial value, its gradient, the default of the target entropy."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions
from headrace.algorithms.sac.temperature import Temperature, temperature_layout
from headrace.gradients.local import LocalVector

LOG_PROBABILITY = np.array([1.0, 2.0], np.float32)  # an entropy of -1.5


@pytest.mark.parametrize(("target_entropy", "gradient"), [(None, 0.5), (-2.0, 0.5), (-1.0, -0.5), (0.0, -1.5)])
def test_descends_to_the_target_entropy(target_entropy: float | None, gradient: float) -> None:
    layout = temperature_layout(0.5)
    vector = LocalVector(layout.initial(np.random.default_rng(0)), OptimizerOptions("sgd", learning_rate=2.0))
    temperature = Temperature(vector, target_entropy, actions=2)
    assert temperature.value == pytest.approx(0.5)
    temperature.descend(LOG_PROBABILITY)
    np.testing.assert_allclose(vector.gradient, [gradient])
    vector.apply()
    assert temperature.value == pytest.approx(0.5 * np.exp(-2 * gradient))
