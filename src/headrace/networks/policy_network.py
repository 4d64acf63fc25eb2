"""The policy's network as a torch module; imported by learners only."""

from itertools import chain

from torch import Tensor, nn
from torch.nn import functional

from headrace._native import DenseNetwork
from headrace.networks.architecture import Architecture, Convolution, Dense
from headrace.networks.native_network import build_dense

__all__ = ["PolicyNetwork"]


class PolicyNetwork(nn.Module):
    """Maps observations [B, *input] of the environment's dtype to Q values or actions [B, A] float32."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        for layer in architecture.convolutions:
            self.add_module(
                layer.name, nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.padding)
            )
        for dense in chain(architecture.torso, *architecture.heads):
            self.add_module(dense.name, nn.Linear(dense.inputs, dense.outputs))

    def build_native(self) -> DenseNetwork:
        """The native network with the same layers; the architecture must be an MLP."""
        return build_dense(self.architecture)

    def forward(self, observation: Tensor) -> Tensor:
        """Q values or actions [B, A] of observations."""
        return self.output(self.features(observation))

    def features(self, observation: Tensor) -> Tensor:
        """The input of the heads, [B, inputs]."""
        x = observation.float()
        if self.architecture.input_dtype == "uint8":
            x = x * (1 / 255)
        if self.architecture.convolutions:
            x = x.reshape(-1, *self.architecture.image_shape)
        for layer in self.architecture.convolutions:
            x = functional.relu(self._layer(x, layer))
            if layer.pool > 1:
                x = functional.max_pool2d(x, layer.pool)
        return self._stream(x.reshape(len(x), -1), self.architecture.torso)

    def output(self, features: Tensor) -> Tensor:
        """Q values or actions [B, A]; a dueling head centers the advantage (Wang et al. 2016, equation 9)."""
        heads = [self._stream(features, head) for head in self.architecture.heads]
        if not self.architecture.dueling:
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
