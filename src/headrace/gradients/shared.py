"""Parameters in memory shared by the worker processes of this machine."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from headrace._native import SharedModel
from headrace.errors import CheckpointError, ConfigError
from headrace.gradients.base import Applied

__all__ = ["AveragedVector", "CopiedVector", "HogwildVector", "OverseenVector"]

_KINDS = {"version": np.uint64, "steps": np.uint64, "joined": np.uint8, "parameters": np.float32, "moments": np.float32}


class _Shared:
    """Base of the vectors of one shared model."""

    def __init__(self, model: SharedModel, parameters: Tensor) -> None:
        self.parameters = parameters
        self.gradient = torch.zeros_like(parameters)
        self.version = 0
        self._model = model
        self._change = self.gradient.numpy()

    def state(self) -> dict[str, Tensor]:
        """Copies of the parameters, moments and steps of all workers."""
        return {
            name: torch.from_numpy(value.astype(np.int64) if value.dtype.kind == "u" else value)
            for name, value in self._model.state().items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned, while no worker runs; raises CheckpointError if shapes differ."""
        try:
            self._model.load({name: state[name].numpy().astype(kind) for name, kind in _KINDS.items()})
        except (KeyError, ConfigError) as error:
            raise CheckpointError(f"the checkpoint's parameters do not fit these settings: {error}") from error

    def close(self) -> None:
        """No effect: the shared memory is released when its last user closes it."""

    def _apply(self, worker: int) -> Applied:
        version, staleness = self._model.apply(worker, self._change, self.version)
        return Applied(version, staleness, accepted=staleness >= 0)


class OverseenVector(_Shared):
    """A copy of the newest parameters, for the process that supervises the workers; implements `ParameterVector`.

    If each worker has its own parameters, this is their mean.
    """

    def __init__(self, model: SharedModel) -> None:
        super().__init__(model, torch.empty(model.count))
        self._copy = self.parameters.numpy()
        self.pull()

    def pull(self) -> int:
        """Copies the newest parameters."""
        self.version = self._model.read_into(self._copy)
        return self.version

    def apply(self) -> Applied:
        """Raises RuntimeError: only workers apply gradients."""
        raise RuntimeError("the training process applies no gradients; its workers do")

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned, while no worker runs; raises CheckpointError if shapes differ."""
        super().load(state)
        self.pull()


class CopiedVector(_Shared):
    """A copy of the shared parameters as of the last pull(); implements `ParameterVector`.

    Whether reads and updates take a lock depends on the mode of the shared model.
    """

    def __init__(self, model: SharedModel, worker: int) -> None:
        super().__init__(model, torch.empty(model.count))
        model.join(worker)
        self._worker = worker
        self._copy = self.parameters.numpy()
        self.pull()

    def pull(self) -> int:
        """Copies the newest parameters."""
        self.version = self._model.read_into(self._copy, self._worker)
        return self.version

    def apply(self) -> Applied:
        """One step of the optimizer on the shared parameters."""
        return self._apply(self._worker)


class HogwildVector(_Shared):
    """The shared parameters themselves, which may change during computation; implements `ParameterVector`."""

    def __init__(self, model: SharedModel, worker: int) -> None:
        super().__init__(model, torch.from_numpy(model.parameters(worker)))
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
        super().__init__(model, torch.from_numpy(model.parameters(worker)) if live else torch.empty(model.count))
        model.join(worker)
        self._worker = worker
        self._copy = None if live else self.parameters.numpy()
        self._period = period
        self._random = np.random.Generator(np.random.PCG64([seed, worker]))
        self._updates = 0
        self.pull()

    def pull(self) -> int:
        """Copies the worker's parameters unless they are live; returns the version: the updates of all workers."""
        copy = self._copy
        self.version = self._model.version if copy is None else self._model.read_into(copy, self._worker)
        return self.version

    def apply(self) -> Applied:
        """One step of the worker's own optimizer, then averaging if it is due."""
        applied = self._apply(self._worker)
        self._updates += 1
        if self._model.workers > 1 and self._updates % self._period == 0:
            other = int(self._random.integers(self._model.workers - 1))
            self._model.average(self._worker, other + (other >= self._worker))
        return applied
