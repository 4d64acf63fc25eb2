"""Policy and value as a torch module; imported by learners only."""

from dataclasses import replace
from math import log
from typing import Literal

import torch
from torch import Tensor, nn

from headrace.networks.architecture import Architecture
from headrace.networks.policy_network import PolicyNetwork

__all__ = ["ActorCritic"]

_FIRST_SIGMA = 0.6
_FIRST_HEAD_SCALE = 0.01  # the initial policy is near uniform, or its means are near 0 (Andrychowicz et al. 2021)


class ActorCritic(nn.Module):
    """Maps observations [B, *input] to the policy's output [B, A] (logits, or means in [-1, 1]) and to values [B].

    The value is a second head of the policy's network or, with a separate trunk, a second network with the same
    layers. The standard deviations of continuous actions are separate parameters, the same for every observation.
    """

    def __init__(self, architecture: Architecture, trunk: Literal["shared", "separate"]) -> None:
        super().__init__()
        self.policy = PolicyNetwork(architecture)
        head = architecture.heads[0][0]
        layer = self.policy.get_submodule(head.name)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(_FIRST_HEAD_SCALE)
        self._separate = trunk == "separate"
        self.value: nn.Module = (
            PolicyNetwork(replace(architecture, actions=1, continuous=False))
            if self._separate
            else nn.Linear(head.inputs, 1)
        )
        if architecture.continuous:
            self.log_sigma = nn.Parameter(torch.full((architecture.actions,), log(_FIRST_SIGMA)))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Output and values."""
        features = self.policy.features(observation)
        value: Tensor = self.value(observation if self._separate else features)
        return self.policy.output(features), value.squeeze(1)
