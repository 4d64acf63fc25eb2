"""The networks as torch modules; imported by the torch engine only."""

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.networks.actor_critic import ActorCritic
from headrace.networks.architecture import Architecture, Convolution, Dense
from headrace.networks.critic import Critic
from headrace.networks.twin_critics import TWINS, TwinCritics

__all__ = ["ActorCriticModule", "CriticModule", "PolicyModule", "RecurrentModule", "TwinCriticsModule"]


class PolicyModule(nn.Module):
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


class RecurrentModule(PolicyModule):
    """A policy with an LSTM or a GRU between its dense layers and its head."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__(architecture)
        cell = {"lstm": nn.LSTM, "gru": nn.GRU}[architecture.cell]
        self.memory = cell(architecture.encoded, architecture.memory, batch_first=True)

    def unroll(self, observation: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [B, T, A] of observations [B, T, *input], and the states [B, S] after them; from states [B, S]."""
        y, last = self.memory(self._features(observation), self._split(state))
        return self.output(y.flatten(0, 1)).reshape(*y.shape[:2], -1), self._join(last)

    def advance(self, observation: Tensor, state: Tensor, steps: Tensor) -> Tensor:
        """The states [B, S] after the first `steps` [B], int64 on the CPU, of observations [B, T, *input].

        Every row has at least one step.
        """
        packed = nn.utils.rnn.pack_padded_sequence(
            self._features(observation), steps, batch_first=True, enforce_sorted=False
        )
        return self._join(self.memory(packed, self._split(state))[1])

    def _features(self, observation: Tensor) -> Tensor:
        """The recurrent layer's inputs [B, T, I]."""
        return self.features(observation.flatten(0, 1)).reshape(*observation.shape[:2], -1)

    def _split(self, state: Tensor) -> Any:
        if self.architecture.cell == "gru":
            return state[None].contiguous()
        return tuple(part[None].contiguous() for part in state.chunk(2, 1))

    def _join(self, last: Any) -> Tensor:
        return last[0] if self.architecture.cell == "gru" else torch.cat([part[0] for part in last], 1)


class ActorCriticModule(nn.Module):
    """See `ActorCritic`."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.policy = PolicyModule(network.architecture)
        self._separate = network.value is not None
        ((head,),) = network.architecture.heads
        self.value: nn.Module = PolicyModule(network.value) if network.value else nn.Linear(head.inputs, 1)
        if network.sigmas:
            self.log_sigma = nn.Parameter(torch.empty(network.sigmas))

    def forward(self, observation: Tensor) -> Tensor:
        """Outputs and values [B, A + 1]."""
        features = self.policy.features(observation)
        value: Tensor = self.value(observation if self._separate else features)
        return torch.cat((self.policy.output(features), value), 1)


class CriticModule(nn.Module):
    """See `Critic`."""

    def __init__(self, critic: Critic) -> None:
        super().__init__()
        self._scale = 1 / 255 if critic.architecture.input_dtype == "uint8" else 1.0
        first, *hidden, head = critic.sizes
        self.first = nn.Linear(*first)
        self.norm = nn.LayerNorm(critic.hidden[0])
        self.hidden = nn.ModuleList(nn.Linear(*sizes) for sizes in hidden)
        self.head = nn.Linear(*head)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Logits [B, Z]."""
        flat = observation.reshape(len(observation), -1).float() * self._scale
        x: Tensor = self.norm(self.first(torch.cat((flat, action), 1))).tanh()
        for layer in self.hidden:
            x = functional.elu(layer(x))
        logits: Tensor = self.head(x)
        return logits


class TwinCriticsModule(nn.Module):
    """See `TwinCritics`."""

    def __init__(self, critics: TwinCritics) -> None:
        super().__init__()
        self._scale = 1 / 255 if critics.architecture.input_dtype == "uint8" else 1.0
        self.weights = nn.ParameterList(torch.empty(TWINS, i, o) for i, o in critics.sizes)
        self.biases = nn.ParameterList(torch.empty(TWINS, 1, o) for _, o in critics.sizes)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Q values [B, 2]."""
        flat = observation.reshape(len(observation), -1).float() * self._scale
        x = torch.cat((flat, action), 1).expand(TWINS, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = functional.relu(x)
        return x.squeeze(2).T
