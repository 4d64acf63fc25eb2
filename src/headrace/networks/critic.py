"""The distributional critic as a torch module; imported by learners only."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace._native import DenseLayer, DenseNetwork
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture, require_parameters

__all__ = ["Critic"]


class Critic(nn.Module):
    """Maps observations [B, *input] and actions [B, A] to logits [B, Z] of a distribution over returns.

    Observation and action, flattened and concatenated, go through Linear, LayerNorm and tanh, then through Linear and
    ELU for each further width, like Acme's LayerNormMLP (Hoffman et al. 2020; Krishnan et al. 2022). Raises ConfigError
    if the policy is a CNN.
    """

    def __init__(self, policy: Architecture, actions: int, hidden: tuple[int, ...], atoms: int) -> None:
        super().__init__()
        if policy.kind != "mlp":
            raise ConfigError(
                f"algorithm is d4pg, and the observations are images of {list(policy.input_shape)}; "
                "its critic takes flat ones: network must be mlp"
            )
        sizes = (policy.features + actions, *hidden, atoms)
        require_parameters("critic_hidden", hidden, sum((i + 1) * o for i, o in pairwise(sizes)) + 2 * hidden[0])
        self.architecture = policy
        self._actions = actions
        self._scale = 1 / 255 if policy.input_dtype == "uint8" else 1.0
        self.first = nn.Linear(policy.features + actions, hidden[0])
        self.norm = nn.LayerNorm(hidden[0])
        self.hidden = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(hidden))
        self.head = nn.Linear(hidden[-1], atoms)

    def build_native(self) -> DenseNetwork:
        """The native network with the same layers."""
        layers: list[DenseLayer] = []
        count = 0
        for linear in (self.first, *self.hidden, self.head):
            inputs, outputs = linear.in_features, linear.out_features
            bias = count + inputs * outputs
            count = bias + outputs
            normalization = None if layers else count
            count += 0 if layers else 2 * outputs
            activation = "none" if linear is self.head else "elu" if layers else "tanh"
            layers.append(
                DenseLayer(
                    inputs,
                    outputs,
                    weight=bias - inputs * outputs,
                    bias=bias,
                    activation=activation,
                    normalization=normalization,
                    source=len(layers) - 1 if layers else None,
                )
            )
        inputs_of = [(self.architecture.features, self.architecture.input_dtype == "uint8"), (self._actions, False)]
        return DenseNetwork(inputs_of, layers, parameters=count)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Logits [B, Z]; uint8 observations are scaled to [0, 1]."""
        flat = observation.reshape(len(observation), -1).float() * self._scale
        x: Tensor = self.norm(self.first(torch.cat((flat, action), 1))).tanh()
        for layer in self.hidden:
            x = functional.elu(layer(x))
        logits: Tensor = self.head(x)
        return logits
