"""An ensemble of networks that predict an environment's transitions, on the native engine."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import DenseLayer, DenseNetwork
from headrace.networks.architecture import require_parameters

__all__ = ["Prediction", "WorldModel"]

_Floats = NDArray[np.float32]


class Prediction(NamedTuple):
    """Predictions of N members for B transitions."""

    change: _Floats  # [N, B, O]: s_{t+1} - s_t
    reward: _Floats  # [N, B]
    done: _Floats  # [N, B]: logit of termination


class _Scale:
    """Running mean and standard deviation of each of F features over all rows."""

    def __init__(self, features: int) -> None:
        self.mean = np.zeros(features, np.float32)
        self.deviation = np.ones(features, np.float32)
        """1 for a feature that has never changed."""
        self._mean, self._variance = np.zeros((2, features))
        self._count = 0.0

    def add(self, rows: _Floats, weight: _Floats) -> None:
        """Adds rows [B, F] with these weights [B] (Chan et al. 1979)."""
        values, weights = rows.astype(np.float64), weight.astype(np.float64)
        count = float(weights.sum())
        mean = weights @ values / count
        variance = weights @ np.square(values - mean) / count
        self._count += count
        share = count / self._count
        step = mean - self._mean
        self._variance += share * (variance - self._variance) + share * (1 - share) * np.square(step)
        self._mean += share * step
        self.mean = self._mean.astype(np.float32)
        self.deviation = np.sqrt(np.where(self._variance > 1e-12, self._variance, 1)).astype(np.float32)


class WorldModel:
    """N MLPs of one shape that predict from a state [O] and one of A actions (Chua et al. 2018). One thread.

    The hidden layers' activation is SiLU. Inputs and targets are scaled to mean 0 and standard deviation 1 with the
    statistics that observe() collects. Members differ in their initial weights, which are uniform on ±1/sqrt(inputs);
    biases start at 0.
    """

    def __init__(
        self, observation: int, actions: int, hidden: tuple[int, ...], members: int, random: np.random.Generator
    ) -> None:
        shapes = list(pairwise((observation + actions, *hidden, observation + 2)))
        count = sum((inputs + 1) * outputs for inputs, outputs in shapes)
        require_parameters("model_hidden", hidden, members * count)
        self.members = members
        self.parameters = np.zeros(members * count, np.float32)
        """[N * P]: member by member, of each layer the weight [inputs, outputs] and the bias [outputs]."""
        self.gradient = np.zeros_like(self.parameters)
        """[N * P], which backward() writes."""
        self.inputs = _Scale(observation)
        self.targets = _Scale(observation + 1)  # a state's change, and the reward
        self._one_hot = np.eye(actions, dtype=np.float32)
        layers: list[DenseLayer] = []
        weight = 0
        for inputs, outputs in shapes:
            bias = weight + inputs * outputs
            uniform = 2 * random.random((members, inputs * outputs), np.float32) - 1
            self._by_member(self.parameters)[:, weight:bias] = uniform / inputs**0.5
            layers.append(
                DenseLayer(
                    inputs,
                    outputs,
                    weight=weight,
                    bias=bias,
                    activation="silu" if len(layers) < len(hidden) else "none",
                    source=len(layers) - 1 if layers else None,
                    by_input=True,
                )
            )
            weight = bias + outputs
        columns = [(observation, False), (actions, False)]
        self._networks = [DenseNetwork(columns, layers, parameters=count) for _ in range(members)]

    def observe(self, observation: _Floats, change: _Floats, reward: _Floats, weight: _Floats) -> None:
        """Adds transitions [B, ...] with these weights [B] to the statistics for scaling inputs and targets."""
        self.inputs.add(observation, weight)
        self.targets.add(np.column_stack((change, reward)), weight)

    def forward(self, observation: _Floats, action: NDArray[np.int64]) -> _Floats:
        """Scaled change and reward, and the logit of termination [N, B, O + 2], for states [B, O] or [N, B, O].

        `action` is [B] or [N, B] accordingly.
        """
        columns = (observation - self.inputs.mean) / self.inputs.deviation, self._one_hot[action]
        states, actions = (np.broadcast_to(x, (self.members, *x.shape[-2:])) for x in columns)
        output = np.empty((*states.shape[:2], self._networks[0].outputs), np.float32)
        parameters = self._by_member(self.parameters)
        for network, theta, state, chosen, y in zip(self._networks, parameters, states, actions, output, strict=True):
            network.forward(theta, (state, chosen), y)
        return output

    def backward(self, dy: _Floats) -> None:
        """Writes the gradient of sum(dy y) of the last forward() by the parameters, for dy [N, B, O + 2]."""
        parameters, gradients = self._by_member(self.parameters), self._by_member(self.gradient)
        for network, theta, change, gradient in zip(self._networks, parameters, dy, gradients, strict=True):
            network.backward(theta, change, gradient)

    def scaled(self, change: _Floats, reward: _Floats) -> _Floats:
        """Targets [B, O + 1] for the first O + 1 outputs."""
        return (np.column_stack((change, reward)) - self.targets.mean) / self.targets.deviation

    def predict(self, observation: _Floats, action: NDArray[np.int64]) -> Prediction:
        """Predictions of each member in the environment's units."""
        output = self.forward(observation, action)
        values = output[..., :-1] * self.targets.deviation + self.targets.mean
        return Prediction(values[..., :-1], values[..., -1], output[..., -1])

    def _by_member(self, vector: _Floats) -> _Floats:
        """The vector [N * P] as [N, P]."""
        return vector.reshape(self.members, -1)
