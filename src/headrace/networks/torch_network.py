"""The policy's network computed by torch; imported by learners only."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array

__all__ = ["TorchNetwork"]


class TorchNetwork:
    """A module on its device; implements `Network`.

    For backward() the module's gradients are views of `gradient` [P].
    """

    def __init__(self, module: PolicyNetwork, device: torch.device, gradient: Tensor | None = None) -> None:
        self._module = module
        self._device = device
        self._gradient = gradient
        self._y: Tensor | None = None

    def place(self, observation: Array) -> Tensor:
        """Observations on the device."""
        return torch.from_numpy(observation).to(self._device, non_blocking=True)

    @torch.no_grad()
    def output(self, x: Any) -> NDArray[np.float32]:
        """Outputs [B, *]."""
        y: NDArray[np.float32] = self._module(x).cpu().numpy()
        return y

    def forward(self, x: Any) -> NDArray[np.float32]:
        """The same; keeps torch's graph."""
        self._y = self._module(x)
        y: NDArray[np.float32] = self._y.detach().cpu().numpy()
        return y

    def backward(self, dy: NDArray[np.float32]) -> None:
        """Writes the gradient."""
        assert self._y is not None
        assert self._gradient is not None
        self._gradient.zero_()
        torch.autograd.backward(self._y, torch.from_numpy(dy).to(self._device))
        self._y = None
