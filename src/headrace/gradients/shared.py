"""Parameters in memory shared by the worker processes of this machine."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace._native import SharedModel
from headrace.clock import spend
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.base import Applied
from headrace.types import Array

__all__ = ["AveragedVector", "CopiedVector", "HogwildVector", "OverseenVector"]


class _Shared:
    """Base of the vectors of one shared model."""

    def __init__(self, model: SharedModel, parameters: NDArray[np.float32]) -> None:
        self.parameters = parameters
        self.gradient = np.zeros_like(parameters)
        self.version = 0
        self.parameter_sets = model.parameter_sets
        self._model = model

    def state(self) -> dict[str, Array]:
        """Copies of the parameters, moments and steps of all workers."""
        return self._model.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned, while no worker runs; raises CheckpointError if shapes differ."""
        try:
            self._model.load(dict(state))
        except ConfigError as error:
            raise CheckpointError(f"the checkpoint's parameters do not fit these settings: {error}") from error

    def close(self) -> None:
        """No effect: the shared memory is released when its last user closes it."""

    def _apply(self, worker: int) -> Applied:
        spend("apply")
        version, staleness = self._model.apply(worker, self.gradient, self.version)
        return Applied(version, staleness, accepted=staleness >= 0)


class OverseenVector(_Shared):
    """A copy of the newest parameters, for the process that supervises the workers; implements `ParameterVector`.

    If each worker has its own parameters, this is their mean.
    """

    def __init__(self, model: SharedModel) -> None:
        super().__init__(model, np.empty(model.count, np.float32))
        self.pull()

    def pull(self) -> int:
        """Copies the newest parameters."""
        self.version = self._model.read_into(self.parameters)
        return self.version

    def apply(self) -> Applied:
        """Raises RuntimeError: only workers apply gradients."""
        raise RuntimeError("the training process applies no gradients; its workers do")

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned, while no worker runs; raises CheckpointError if shapes differ."""
        super().load(state)
        self.pull()


class CopiedVector(_Shared):
    """A copy of the shared parameters as of the last pull(); implements `ParameterVector`.

    Whether reads and updates take a lock depends on the mode of the shared model.
    """

    def __init__(self, model: SharedModel, worker: int) -> None:
        super().__init__(model, np.empty(model.count, np.float32))
        model.join(worker)
        self._worker = worker
        self.pull()

    def pull(self) -> int:
        """Copies the newest parameters."""
        self.version = self._model.read_into(self.parameters, self._worker)
        return self.version

    def apply(self) -> Applied:
        """One step of the optimizer on the shared parameters."""
        return self._apply(self._worker)


class HogwildVector(_Shared):
    """The shared parameters themselves, which may change during computation; implements `ParameterVector`."""

    def __init__(self, model: SharedModel, worker: int) -> None:
        super().__init__(model, model.parameters(worker))
        model.join(worker)
        self._worker = worker
        self.pull()

    def pull(self) -> int:
        """Returns the version: there is nothing to copy."""
        self.version = self._model.version
        return self.version

    def apply(self) -> Applied:
        """One step of the optimizer, without a lock (Recht et al. 2011)."""
        return self._apply(self._worker)


class AveragedVector(_Shared):
    """A worker's own parameters, averaged with those of a random other worker; implements `ParameterVector`.

    After every `period` updates of the worker, both take their mean (Lian et al. 2018, AD-PSGD). `seed` determines the
    neighbors. With `live`, the parameters immediately include what a neighbor averages into them; otherwise they are a
    copy as of the last pull().
    """

    def __init__(self, model: SharedModel, worker: int, period: int, seed: int, *, live: bool = True) -> None:
        super().__init__(model, model.parameters(worker) if live else np.empty(model.count, np.float32))
        model.join(worker)
        self._worker = worker
        self._live = live
        self._period = period
        self._random = np.random.Generator(np.random.PCG64([seed, worker]))
        self._updates = 0
        self.pull()

    def pull(self) -> int:
        """Copies the worker's parameters unless they are live; returns the version: the updates of all workers."""
        model = self._model
        self.version = model.version if self._live else model.read_into(self.parameters, self._worker)
        return self.version

    def apply(self) -> Applied:
        """One step of the worker's own optimizer, then averaging if it is due."""
        applied = self._apply(self._worker)
        self._updates += 1
        if self._model.workers > 1 and self._updates % self._period == 0:
            other = int(self._random.integers(self._model.workers - 1))
            self._model.average(self._worker, other + (other >= self._worker))
        return applied
