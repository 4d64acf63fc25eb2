"""The networks as torch modules; imported by the torch engine only."""

from itertools import chain
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.networks.actor_critic import ActorCritic
from headrace.networks.architecture import Architecture, Convolution, Dense, Encoder
from headrace.networks.critic import Critic
from headrace.networks.records import ILLEGAL, one_hot
from headrace.networks.twin_critics import TWINS, TwinCritics
from headrace.types import EnvironmentSpec

__all__ = [
    "ActorCriticModule",
    "CriticModule",
    "PolicyModule",
    "RecurrentModule",
    "TwinCriticsModule",
    "features_of",
    "part_values",
]


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
        return self.masked(self.output(self.features(observation)), observation)

    def features(self, observation: Tensor) -> Tensor:
        """The input of the heads, [B, inputs]."""
        encoded = []
        for encoder, value in zip(self.architecture.encoders, part_values(observation, self.architecture), strict=True):
            x = _dense_input(encoder, value)
            if encoder.convolutions and encoder.channels_last:
                x = x.reshape(value.shape).movedim(-1, -3)
            if encoder.convolutions:
                x = x.reshape(-1, *encoder.image_shape)
            for layer in encoder.convolutions:
                x = functional.relu(self._layer(x, layer))
                if layer.pool > 1:
                    x = functional.max_pool2d(x, layer.pool)
            encoded.append(x.reshape(len(x), -1))
        return self._stream(_side_by_side(encoded), self.architecture.torso)

    def masked(self, output: Tensor, observation: Tensor) -> Tensor:
        """Outputs [B, A] in which those of actions that the observation's mask excludes are ILLEGAL."""
        if not self.architecture.head.masked:
            return output
        return output.masked_fill(part_values(observation, self.architecture)[-1] == 0, ILLEGAL)

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
        outputs = self.masked(self.output(y.flatten(0, 1)), observation.flatten(0, 1))
        return outputs.reshape(*y.shape[:2], -1), self._join(last)

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
        return torch.cat((self.policy.masked(self.policy.output(features), observation), value), 1)


class CriticModule(nn.Module):
    """See `Critic`."""

    def __init__(self, critic: Critic) -> None:
        super().__init__()
        self._architecture = critic.architecture
        first, *hidden, head = critic.sizes
        self.first = nn.Linear(*first)
        self.norm = nn.LayerNorm(critic.hidden[0])
        self.hidden = nn.ModuleList(nn.Linear(*sizes) for sizes in hidden)
        self.head = nn.Linear(*head)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Logits [B, Z]."""
        flat = features_of(observation, self._architecture)
        x: Tensor = self.norm(self.first(torch.cat((flat, action), 1))).tanh()
        for layer in self.hidden:
            x = functional.elu(layer(x))
        logits: Tensor = self.head(x)
        return logits


class TwinCriticsModule(nn.Module):
    """See `TwinCritics`."""

    def __init__(self, critics: TwinCritics) -> None:
        super().__init__()
        self._architecture = critics.architecture
        self.weights = nn.ParameterList(torch.empty(TWINS, i, o) for i, o in critics.sizes)
        self.biases = nn.ParameterList(torch.empty(TWINS, 1, o) for _, o in critics.sizes)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Q values [B, 2]."""
        flat = features_of(observation, self._architecture)
        x = torch.cat((flat, action), 1).expand(TWINS, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = functional.relu(x)
        return x.squeeze(2).T


def part_values(observation: Tensor, architecture: Architecture | EnvironmentSpec) -> list[Tensor]:
    """The values [B, *shape] of each part of observations, which are records; or the observations themselves."""
    if not architecture.parts:
        return [observation]
    values = []
    for part in architecture.parts:
        size = prod(part.shape) * np.dtype(part.dtype).itemsize
        column = observation[:, part.offset : part.offset + size].contiguous()
        values.append(column.view(getattr(torch, part.dtype)).reshape(-1, *part.shape))
    return values


def features_of(observation: Tensor, architecture: Architecture) -> Tensor:
    """What the first dense layer of an MLP reads of observations, [B, F]; see `records.expand()`."""
    values = part_values(observation, architecture)
    return _side_by_side([_dense_input(*each) for each in zip(architecture.encoders, values, strict=True)])


def _side_by_side(features: list[Tensor]) -> Tensor:
    return features[0] if len(features) == 1 else torch.cat(features, 1)


def _dense_input(encoder: Encoder, value: Tensor) -> Tensor:
    """Values [B, *shape] of one part -> float32 [B, F]."""
    flat = value.reshape(len(value), -1)
    if encoder.part.categories:
        index, values = (torch.from_numpy(each).to(value.device) for each in one_hot(encoder.part))
        return (flat.long()[:, index] == values).float()
    return flat.float() * (1 / 255) if encoder.scaled else flat.float()
