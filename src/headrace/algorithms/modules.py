"""Operations on torch modules shared by all learners."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headrace.errors import CheckpointError
from headrace.gradients.base import ParameterVector
from headrace.types import Array

__all__ = ["Follower", "Learned", "copy_weights"]


class Learned(NamedTuple):
    """Everything that an updater learns, by its names in a checkpoint: target networks and parameter vectors."""

    modules: Mapping[str, nn.Module]
    vectors: Mapping[str, ParameterVector]

    def state(self, updates: int) -> dict[str, Tensor]:
        """Parameters, optimizer moments and the number of updates, by name."""
        parts = [(part, module.state_dict()) for part, module in self.modules.items()]
        parts += [(part, vector.state()) for part, vector in self.vectors.items()]
        state = {f"{part}.{name}": value for part, values in parts for name, value in values.items()}
        return state | {"updates": torch.tensor(updates)}

    def load(self, state: Mapping[str, Tensor]) -> int:
        """Restores what state() returned; returns the number of updates. CheckpointError if names or shapes differ."""
        parts: dict[str, dict[str, Tensor]] = {name: {} for name in (*self.modules, *self.vectors)}
        try:
            for name, value in state.items():
                if name != "updates":
                    part, rest = name.split(".", 1)
                    parts[part][rest] = value
            for part, module in self.modules.items():
                module.load_state_dict(parts[part])
            updates = int(state["updates"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint's network does not fit these settings: {error}") from error
        for part, vector in self.vectors.items():
            vector.load(parts[part])
        return updates


class Follower(NamedTuple):
    """Moves target networks towards the online ones, every `period` updates by the fraction `rate`; 1 copies."""

    pairs: tuple[tuple[Tensor, Tensor], ...]
    """Parameters [P] of target and online networks."""
    period: int
    rate: float

    @torch.no_grad()
    def follow(self, before: int, version: int) -> None:
        """Moves the targets as often as is due between two versions of the online networks."""
        due = version // self.period - before // self.period
        if due > 0:
            rate = self.rate if due == 1 else 1 - (1 - self.rate) ** due
            for target, online in self.pairs:
                target.lerp_(online, rate)


def copy_weights(module: nn.Module) -> dict[str, Array]:
    """Copies of the parameters as arrays, by name."""
    return {name: value.detach().to("cpu", copy=True).numpy() for name, value in module.state_dict().items()}
