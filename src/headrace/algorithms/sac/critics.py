"""The twin critics as one torch module; imported by learners only."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace._native import DenseLayer, DenseNetwork
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture, require_parameters

__all__ = ["TwinCritics"]

_TWINS = 2


class TwinCritics(nn.Module):
    """Maps observations [B, *input] and actions [B, A] to the Q values [B, 2] of two MLPs, computed together.

    Observation and action, flattened and concatenated, go through linear layers with a ReLU between them. Raises
    ConfigError if the policy is a CNN.
    """

    def __init__(self, policy: Architecture, actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        if policy.kind != "mlp":
            raise ConfigError(
                f"algorithm is sac, and the observations are images of {list(policy.input_shape)}; "
                "its critics take flat ones: network must be mlp"
            )
        sizes = (policy.features + actions, *hidden, 1)
        require_parameters("critic_hidden", hidden, _TWINS * sum((i + 1) * o for i, o in pairwise(sizes)))
        self.architecture = policy
        self._sizes = sizes
        self._scale = 1 / 255 if policy.input_dtype == "uint8" else 1.0
        self.weights = nn.ParameterList(_uniform(_TWINS, i, o, inputs=i) for i, o in pairwise(sizes))
        self.biases = nn.ParameterList(_uniform(_TWINS, 1, o, inputs=i) for i, o in pairwise(sizes))

    def build_native(self) -> DenseNetwork:
        """The native network: the two MLPs are two streams of layers, whose heads are side by side."""
        shapes = list(pairwise(self._sizes))
        layers: list[DenseLayer] = []
        for twin in range(_TWINS):
            weight, bias = 0, _TWINS * sum(i * o for i, o in shapes)
            for index, (inputs, outputs) in enumerate(shapes):
                layers.append(
                    DenseLayer(
                        inputs,
                        outputs,
                        weight=weight + twin * inputs * outputs,
                        bias=bias + twin * outputs,
                        activation="relu" if index + 1 < len(shapes) else "none",
                        source=len(layers) - 1 if index else None,
                        by_input=True,
                    )
                )
                weight, bias = weight + _TWINS * inputs * outputs, bias + _TWINS * outputs
        features = self.architecture.features
        inputs_of = [(features, self.architecture.input_dtype == "uint8"), (self._sizes[0] - features, False)]
        return DenseNetwork(inputs_of, layers, parameters=bias)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Q values [B, 2]; uint8 observations are scaled to [0, 1]."""
        flat = observation.reshape(len(observation), -1).float() * self._scale
        x = torch.cat((flat, action), 1).expand(_TWINS, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = functional.relu(x)
        return x.squeeze(2).T


def _uniform(*shape: int, inputs: int) -> Tensor:
    """Uniform on +-1 / sqrt(inputs), as torch initializes linear layers."""
    return torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5)
