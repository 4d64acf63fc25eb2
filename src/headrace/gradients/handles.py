"""Handles of a parameter vector that a run's workers share, and how a worker opens it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.clock import shared_lock
from headrace.fields import read_choice, write_fields
from headrace.gradients.base import Mode, ParameterVector
from headrace.gradients.measured import MeasuredVector
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import AveragedVector, CopiedVector, HogwildVector
from headrace.servers import Endpoint

__all__ = ["ServedHandle", "SharedHandle", "VectorHandle"]


@dataclass(frozen=True)
class VectorHandle(ABC):
    """Where workers find the vector; sent as JSON."""

    kind: ClassVar[str]

    @abstractmethod
    def open(
        self, initial: NDArray[np.float32], optimizer: OptimizerOptions, endpoint: Endpoint, worker: int, seed: int
    ) -> MeasuredVector:
        """The vector of one worker. It exists: of `initial` [P] only the length is used."""

    def to_record(self) -> dict[str, Any]:
        """The handle as JSON, with its kind."""
        return {"kind": self.kind, **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "VectorHandle":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return read_choice({kind.kind: kind for kind in (SharedHandle, ServedHandle)}, record, "kind")


@dataclass(frozen=True)
class SharedHandle(VectorHandle):
    """Memory shared by processes on this machine."""

    kind: ClassVar[str] = "shared"

    path: str
    mode: Mode
    average_period: int = 1
    live: bool = True
    """True: a worker without a lock computes with parameters that others are changing (DQN). False: with a copy as of
    its last pull()."""

    def open(
        self, initial: NDArray[np.float32], optimizer: OptimizerOptions, endpoint: Endpoint, worker: int, seed: int
    ) -> MeasuredVector:
        """The vector of one worker; raises ClosedError if the process that created the memory has ended."""
        model = SharedModel.open(self.path)
        lock = shared_lock(self.path) if self.mode == "lock" else None
        return MeasuredVector(self._join(model, worker, seed), lambda: model.lock_wait_seconds(worker), lock)

    def _join(self, model: SharedModel, worker: int, seed: int) -> ParameterVector:
        if self.mode == "ad-psgd":
            return AveragedVector(model, worker, self.average_period, seed, live=self.live)
        if self.mode == "hogwild" and self.live:
            return HogwildVector(model, worker)
        return CopiedVector(model, worker)


@dataclass(frozen=True)
class ServedHandle(VectorHandle):
    """Shards in the run's server and in others."""

    kind: ClassVar[str] = "served"

    options: ServedOptions
    name: str = "model"
    """Name of the shards."""

    def open(
        self, initial: NDArray[np.float32], optimizer: OptimizerOptions, endpoint: Endpoint, worker: int, seed: int
    ) -> MeasuredVector:
        """The vector of one worker, which joins existing shards; raises as ServedVector."""
        return MeasuredVector(ServedVector(initial, optimizer, endpoint, self.name, self.options, fresh=False))
