"""Policy and value as a torch module; imported by learners only."""

from dataclasses import replace
from math import log
from typing import Literal

import torch
from torch import Tensor, nn

from headrace.networks.architecture import Architecture, Head
from headrace.networks.policy_network import PolicyNetwork

__all__ = ["ActorCritic"]

_FIRST_SIGMA = 0.6
_FIRST_HEAD_SCALE = 0.01  # the initial policy is near uniform, or its means are near 0 (Andrychowicz et al. 2021)


class ActorCritic(nn.Module):
    """Maps observations [B, *input] to the policy's output [B, A] (logits, or means in [-1, 1]) and to values [B].

    The value is a second head of the policy's network or, with a separate trunk, a network with the same layers. The
    standard deviations of continuous actions, `sigmas` of them, are parameters that do not depend on the observation.
    """

    def __init__(self, architecture: Architecture, trunk: Literal["shared", "separate"], sigmas: int = 0) -> None:
        super().__init__()
        self.policy = PolicyNetwork(architecture)
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

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Output and values."""
        features = self.policy.features(observation)
        value: Tensor = self.value(observation if self._separate else features)
        return self.policy.output(features), value.squeeze(1)
