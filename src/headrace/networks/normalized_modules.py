"""Batch-normalized networks as torch modules; imported by the torch engine only."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.networks.architecture import Dense
from headrace.networks.normalized_streams import EPSILON, Limits, NormalizedStreams
from headrace.networks.torch_modules import features_of

__all__ = ["NormalizedLinear", "NormalizedModule"]


class NormalizedLinear(nn.Module):
    """A layer of `NormalizedStreams`, before its activation.

    It normalizes by the batch where `limits` are set, and then keeps the batch's mean and variance in `measured`.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, layer: Dense) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(layer.outputs, layer.inputs))
        self.bias = nn.Parameter(torch.empty(layer.outputs))
        self.gain = nn.Parameter(torch.empty(layer.inputs))
        self.shift = nn.Parameter(torch.empty(layer.inputs))
        self.register_buffer("mean", torch.empty(layer.inputs))
        self.register_buffer("variance", torch.empty(layer.inputs))
        self.limits: Limits | None = None
        self.measured: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, outputs] of [B, inputs]."""
        sigma = (self.variance.clamp(min=0) + EPSILON).sqrt()
        z = (x - self.mean) / sigma if self.limits is None else self._by_batch(x, sigma, self.limits)
        return functional.linear(z * self.gain + self.shift, self.weight, self.bias)

    def _by_batch(self, x: Tensor, sigma: Tensor, limits: Limits) -> Tensor:
        mean = x.mean(0)
        distance = x - mean
        variance = distance.square().mean(0)
        batch_sigma = (variance + EPSILON).sqrt()
        r = (batch_sigma.detach() / sigma).clamp(1 / limits.scale, limits.scale)
        d = ((mean.detach() - self.mean) / sigma).clamp(-limits.shift, limits.shift)
        self.measured = mean.detach(), variance.detach()
        return distance / batch_sigma * r + d


class NormalizedModule(nn.Module):
    """See `NormalizedStreams`."""

    def __init__(self, network: NormalizedStreams) -> None:
        super().__init__()
        self._architecture = network.architecture
        self._streams = network.streams
        for layer in (layer for stream in network.streams for layer in stream):
            self.add_module(layer.name, NormalizedLinear(layer))

    def forward(self, observation: Tensor, *actions: Tensor) -> Tensor:
        """Outputs [B, *] of observations and, for critics, actions [B, A]."""
        x = torch.cat((features_of(observation, self._architecture), *actions), 1)
        return torch.cat([self._compute(stream, x) for stream in self._streams], 1)

    def _compute(self, stream: tuple[Dense, ...], x: Tensor) -> Tensor:
        for layer in stream:
            x = self.get_submodule(layer.name)(x)
            if layer.activation == "relu":
                x = functional.relu(x)
        return x
