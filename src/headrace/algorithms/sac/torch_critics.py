"""The twin critics as a torch module; imported by the torch engine only."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.algorithms.sac.critics import TWINS, TwinCritics

__all__ = ["TwinCriticsModule"]


class TwinCriticsModule(nn.Module):
    """See `TwinCritics`."""

    def __init__(self, critics: TwinCritics) -> None:
        super().__init__()
        self._scale = 1 / 255 if critics.architecture.input_dtype == "uint8" else 1.0
        self.weights = nn.ParameterList(torch.empty(TWINS, i, o) for i, o in critics.sizes)
        self.biases = nn.ParameterList(torch.empty(TWINS, 1, o) for _, o in critics.sizes)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Q values [B, 2]."""
        flat = observation.reshape(len(observation), -1).float() * self._scale
        x = torch.cat((flat, action), 1).expand(TWINS, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = functional.relu(x)
        return x.squeeze(2).T
