"""The place of the parameters that a run's workers share, and how a worker opens them; sent as JSON."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions, SharedModel
from headrace.fields import read_fields, read_object
from headrace.gradients.base import ParameterVector
from headrace.gradients.measured import MeasuredVector
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.gradients.shared import AveragedVector, CopiedVector, HogwildVector
from headrace.servers import Endpoint

__all__ = ["Mode", "ServedPlace", "SharedPlace", "VectorPlace", "read_place"]

Mode = Literal["lock", "hogwild", "ad-psgd"]


@dataclass(frozen=True)
class SharedPlace:
    """Memory shared by processes on this machine."""

    path: str
    mode: Mode
    average_period: int = 1
    live: bool = True
    """True: a worker without a lock computes with parameters that others are changing (DQN). False: with a copy as of
    its last pull()."""

    def to_json(self) -> str:
        """The place as JSON."""
        return json.dumps({"kind": "shared", **dataclasses.asdict(self)})

    def open(self, initial: NDArray[np.float32], endpoint: Endpoint, worker: int, seed: int) -> MeasuredVector:
        """The vector of one worker; raises ClosedError if the process that created the memory has ended."""
        model = SharedModel.open(self.path)
        return MeasuredVector(self._join(model, worker, seed), lambda: model.lock_wait_seconds(worker))

    def _join(self, model: SharedModel, worker: int, seed: int) -> ParameterVector:
        if self.mode == "ad-psgd":
            return AveragedVector(model, worker, self.average_period, seed, live=self.live)
        if self.mode == "hogwild" and self.live:
            return HogwildVector(model, worker)
        return CopiedVector(model, worker)


@dataclass(frozen=True)
class ServedPlace:
    """Shards in the run's server and in others."""

    options: ServedOptions
    name: str = "model"
    """Name of the shards."""

    def to_json(self) -> str:
        """The place as JSON."""
        options = {field.name: getattr(self.options, field.name) for field in dataclasses.fields(self.options)}
        return json.dumps(
            {"kind": "served", "name": self.name, **options, "optimizer": self.options.optimizer.encode()}
        )

    def open(self, initial: NDArray[np.float32], endpoint: Endpoint, worker: int, seed: int) -> MeasuredVector:
        """The vector of one worker, which joins existing shards; raises as ServedVector."""
        return MeasuredVector(ServedVector(initial, endpoint, self.name, self.options, fresh=False))


VectorPlace = SharedPlace | ServedPlace


def read_place(text: str) -> VectorPlace:
    """Reads what to_json() wrote."""
    record = read_object(text, "a place of parameters")
    if record.pop("kind") == "shared":
        return read_fields(SharedPlace, record)
    name, optimizer = record.pop("name"), OptimizerOptions.decode(record.pop("optimizer"))
    return ServedPlace(read_fields(ServedOptions, record, optimizer=optimizer), name)
