"""Policy and value."""

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Literal

from headrace._native import DenseNetwork
from headrace.networks.architecture import Architecture, Dense, Head
from headrace.networks.layout import Layout, Parameter, affine
from headrace.networks.native_network import DenseLayers

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ActorCritic"]

_FIRST_SIGMA = 0.6
_FIRST_HEAD_SCALE = 0.01  # the initial policy is near uniform, or its means are near 0 (Andrychowicz et al. 2021)


@dataclass(frozen=True)
class ActorCritic:
    """Maps observations [B, *input] to [B, A + 1]: the policy's output (logits, or means in [-1, 1]), then the value.

    The value is a second head of the policy's network or, with a separate trunk, a network with the same layers. The
    standard deviations of continuous actions, `sigmas` of them, are parameters that do not depend on the observation:
    the first ones. Those of the policy follow. A `Description`.
    """

    architecture: Architecture
    trunk: Literal["shared", "separate"]
    sigmas: int = 0

    @property
    def value(self) -> Architecture | None:
        """The value's network, if it is a separate one."""
        return replace(self.architecture, head=Head("q", 1)) if self.trunk == "separate" else None

    @property
    def layout(self) -> Layout:
        """The parameters: log_sigma, policy.*, value.*."""
        first = log(_FIRST_SIGMA)
        sigma = (Parameter("log_sigma", (self.sigmas,), first, first),) if self.sigmas else ()
        policy = self.architecture.layout.parameters
        head = tuple(
            parameter._replace(low=_FIRST_HEAD_SCALE * parameter.low, high=_FIRST_HEAD_SCALE * parameter.high)
            for parameter in policy[-2:]
        )
        value = _named("value", self.value.layout.parameters) if self.value else affine("value", (1, self._head.inputs))
        return Layout((*sigma, *_named("policy", (*policy[:-2], *head)), *value))

    def build_native(self) -> DenseNetwork:
        """The native network, which does not use the standard deviations."""
        layers = DenseLayers(first=self.sigmas)
        torso = layers.add(self.architecture.torso)
        layers.add((self._head,), torso)
        value = Dense("value", self._head.inputs, 1, "none")
        if self.value:
            layers.add((*self.architecture.torso, value))
        else:
            layers.add((value,), torso)
        inputs = [self.architecture.native_input]
        return DenseNetwork(inputs, layers.layers, parameters=layers.parameters)

    def build_torch(self) -> "nn.Module":
        """The torch module."""
        from headrace.networks.torch_modules import ActorCriticModule

        return ActorCriticModule(self)

    @property
    def _head(self) -> Dense:
        ((head,),) = self.architecture.heads
        return head


def _named(prefix: str, parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    return tuple(parameter._replace(name=f"{prefix}.{parameter.name}") for parameter in parameters)
