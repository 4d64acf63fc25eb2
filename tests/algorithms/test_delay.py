"""Vectors that are updated less often than another one, by several workers."""

import numpy as np
import pytest

from headrace._native import OptimizerOptions
from headrace.algorithms.delay import Delay
from headrace.gradients.base import Applied
from headrace.gradients.local import LocalVector

PERIOD = 3


class Copy:
    """A worker's copy of a vector, which it fetches once for every `fetch_period` of its gradients."""

    def __init__(self, served: LocalVector, fetch_period: int) -> None:
        self._served = served
        self._fetch_period = fetch_period
        self._applied = 0
        self.version = 0

    def pull(self) -> int:
        if self._applied % self._fetch_period == 0:
            self.version = self._served.version
        return self.version

    def apply(self) -> Applied:
        self._applied += 1
        return self._served.apply()


@pytest.mark.parametrize(("workers", "fetch_period"), [(1, 1), (1, 5), (8, 1), (8, 10)])
def test_workers_keep_the_period_together_however_rarely_they_fetch(workers: int, fetch_period: int) -> None:
    leading, delayed = (LocalVector(np.zeros(1, np.float32), OptimizerOptions("sgd")) for _ in range(2))
    copies = [(Copy(leading, fetch_period), Copy(delayed, fetch_period)) for _ in range(workers)]
    delays = [Delay(*pair, PERIOD) for pair in copies]  # type: ignore[arg-type]
    for _ in range(120):
        for pair, delay in zip(copies, delays, strict=True):
            for copy in pair:
                copy.pull()
            delay.apply(delayed=delay.due())
            assert abs(delayed.version - leading.version // PERIOD) <= workers
    assert leading.version == 120 * workers
