"""The policy's network."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace._native import DenseNetwork
from headrace.networks.architecture import Architecture
from headrace.networks.layout import Layout
from headrace.networks.native_network import build_dense

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PolicyNetwork"]


@dataclass(frozen=True)
class PolicyNetwork:
    """Maps observations [B, *input] of the environment's dtype to Q values or actions [B, A]; a `Description`."""

    architecture: Architecture

    @property
    def layout(self) -> Layout:
        """The parameters."""
        return self.architecture.layout

    def build_native(self) -> DenseNetwork:
        """The native network; the architecture must be an MLP."""
        return build_dense(self.architecture)

    def build_torch(self) -> "nn.Module":
        """The torch module."""
        if self.architecture.own:
            from headrace.networks.own_modules import OwnModule

            return OwnModule(self.architecture.own)
        from headrace.networks.torch_modules import PolicyModule, RecurrentModule

        return RecurrentModule(self.architecture) if self.architecture.recurrent else PolicyModule(self.architecture)
