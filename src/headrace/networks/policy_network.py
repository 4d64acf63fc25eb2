"""The policy's network as a torch module; imported by learners only."""

from itertools import chain

from torch import Tensor, nn
from torch.nn import functional

from headrace.networks.architecture import Architecture, Convolution, Dense

__all__ = ["PolicyNetwork"]


class PolicyNetwork(nn.Module):
    """Maps observations [B, *input] of the environment's dtype to Q values or actions [B, A] float32."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        for layer in architecture.convolutions:
            self.add_module(layer.name, nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride))
        for dense in chain(architecture.torso, *architecture.heads):
            self.add_module(dense.name, nn.Linear(dense.inputs, dense.outputs))

    def forward(self, observation: Tensor) -> Tensor:
        """Q values or actions [B, A]; a duelling head centres the advantage (Wang et al. 2016, equation 9)."""
        x = observation.float()
        if self.architecture.input_dtype == "uint8":
            x = x * (1 / 255)
        if self.architecture.convolutions:
            x = x.reshape(-1, *self.architecture.image_shape)
        for layer in self.architecture.convolutions:
            x = functional.relu(self._layer(x, layer))
        x = self._stream(x.reshape(len(x), -1), self.architecture.torso)
        heads = [self._stream(x, head) for head in self.architecture.heads]
        if not self.architecture.duelling:
            return heads[0]
        value, advantage = heads
        return value + advantage - advantage.mean(1, keepdim=True)

    def _stream(self, x: Tensor, layers: tuple[Dense, ...]) -> Tensor:
        for layer in layers:
            x = self._layer(x, layer)
            if layer.activation == "relu":
                x = functional.relu(x)
            elif layer.activation == "tanh":
                x = x.tanh()
        return x

    def _layer(self, x: Tensor, layer: Dense | Convolution) -> Tensor:
        result: Tensor = self.get_submodule(layer.name)(x)
        return result
