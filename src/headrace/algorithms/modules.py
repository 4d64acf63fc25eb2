"""Operations on torch modules shared by all learners."""

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headrace.errors import CheckpointError
from headrace.types import Array, Batch

__all__ = ["Learned", "copy_weights", "move_target", "to_device"]

# Batches from another process are in read-only memory; nothing here writes to them.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)


class Learned(NamedTuple):
    """Modules and optimizers of an updater, by their names in a checkpoint."""

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]

    def state(self, updates: int) -> dict[str, Tensor]:
        """Parameters, optimizer moments and the number of updates, by name."""
        state = {
            f"{part}.{name}": value
            for part, module in self.modules.items()
            for name, value in module.state_dict().items()
        }
        for part, optimizer in self.optimizers.items():
            for index, moments in optimizer.state_dict()["state"].items():
                state |= {f"{part}.{index}.{name}": value for name, value in moments.items()}
        state["updates"] = torch.tensor(updates)
        return state

    def load(self, state: Mapping[str, Tensor]) -> int:
        """Restores what state() returned; returns the number of updates. CheckpointError if names or shapes differ."""
        parts: dict[str, dict[str, Tensor]] = {name: {} for name in (*self.modules, *self.optimizers)}
        try:
            for name, value in state.items():
                if name != "updates":
                    part, rest = name.split(".", 1)
                    parts[part][rest] = value
            for part, module in self.modules.items():
                module.load_state_dict(parts[part])
            for part, optimizer in self.optimizers.items():
                moments: dict[int, dict[str, Tensor]] = {}
                for name, value in parts[part].items():
                    index, moment = name.split(".")
                    moments.setdefault(int(index), {})[moment] = value
                groups = optimizer.state_dict()["param_groups"]
                optimizer.load_state_dict({"state": moments, "param_groups": groups})
            return int(state["updates"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint's network does not fit these settings: {error}") from error


def copy_weights(module: nn.Module) -> dict[str, Array]:
    """Copies of the parameters as arrays, by name."""
    return {name: value.detach().to("cpu", copy=True).numpy() for name, value in module.state_dict().items()}


@torch.no_grad()
def move_target(target: nn.Module, online: nn.Module, rate: float) -> None:
    """Moves the target's parameters towards the online ones by the fraction `rate`; 1 copies."""
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.lerp_(fast, rate)


def to_device(batch: Batch, device: torch.device) -> tuple[Tensor, ...]:
    """observation, next_observation, action, reward, discount, weight on the learner's device."""
    fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)
    return tuple(torch.from_numpy(field).to(device, non_blocking=True) for field in fields)
