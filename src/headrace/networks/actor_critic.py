"""Policy and value as a torch module; imported by learners only."""

from dataclasses import replace
from math import log
from typing import Literal

import torch
from torch import Tensor, nn

from headrace._native import DenseNetwork
from headrace.networks.architecture import Architecture, Dense, Head
from headrace.networks.native_network import DenseLayers
from headrace.networks.policy_network import PolicyNetwork

__all__ = ["ActorCritic"]

_FIRST_SIGMA = 0.6
_FIRST_HEAD_SCALE = 0.01  # the initial policy is near uniform, or its means are near 0 (Andrychowicz et al. 2021)


class ActorCritic(nn.Module):
    """Maps observations [B, *input] to [B, A + 1]: the policy's output (logits, or means in [-1, 1]), then the value.

    The value is a second head of the policy's network or, with a separate trunk, a network with the same layers. The
    standard deviations of continuous actions, `sigmas` of them, are parameters that do not depend on the observation.
    """

    def __init__(self, architecture: Architecture, trunk: Literal["shared", "separate"], sigmas: int = 0) -> None:
        super().__init__()
        self.architecture = architecture
        self.policy = PolicyNetwork(architecture)
        self._sigmas = sigmas
        head = architecture.heads[0][0]
        layer = self.policy.get_submodule(head.name)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(_FIRST_HEAD_SCALE)
        self._separate = trunk == "separate"
        self.value: nn.Module = (
            PolicyNetwork(replace(architecture, head=Head("q", 1))) if self._separate else nn.Linear(head.inputs, 1)
        )
        if sigmas:
            self.log_sigma = nn.Parameter(torch.full((sigmas,), log(_FIRST_SIGMA)))

    def build_native(self) -> DenseNetwork:
        """The native network with the same layers; the standard deviations, which it does not use, come first."""
        layers = DenseLayers(first=self._sigmas)
        torso = layers.add(self.architecture.torso)
        (head,) = self.architecture.heads
        layers.add(head, torso)
        value = Dense("value", head[-1].inputs, 1, "none")
        if self._separate:
            layers.add((*self.architecture.torso, value))
        else:
            layers.add((value,), torso)
        inputs = [(self.architecture.features, self.architecture.input_dtype == "uint8")]
        return DenseNetwork(inputs, layers.layers, parameters=layers.parameters)

    def forward(self, observation: Tensor) -> Tensor:
        """Outputs and values."""
        features = self.policy.features(observation)
        value: Tensor = self.value(observation if self._separate else features)
        return torch.cat((self.policy.output(features), value), 1)
