"""An ensemble of networks that predict an environment's transitions, as one torch module."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.networks.architecture import require_parameters

__all__ = ["Prediction", "WorldModel"]


class Prediction(NamedTuple):
    """Predictions of N members for B transitions."""

    change: Tensor  # [N, B, O] float32: s_{t+1} - s_t
    reward: Tensor  # [N, B] float32
    done: Tensor  # [N, B] float32: logit of termination


class _Scale(nn.Module):
    """Running mean and standard deviation of each of F features over all rows."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features, dtype=torch.float64))
        self.register_buffer("variance", torch.zeros(features, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def add(self, rows: Tensor, weight: Tensor) -> None:
        """Adds rows [B, F] with these weights [B] (Chan et al. 1979)."""
        rows, weight = rows.double(), weight.double()
        count = weight.sum()
        mean = weight @ rows / count
        variance = weight @ (rows - mean).square() / count
        total = self.count + count
        share = count / total
        step = mean - self.mean
        self.variance += share * (variance - self.variance) + share * (1 - share) * step.square()
        self.mean += share * step
        self.count.copy_(total)

    @property
    def deviation(self) -> Tensor:
        """Standard deviations [F] float32; 1 for a feature that has never changed."""
        return torch.where(self.variance > 1e-12, self.variance, 1.0).sqrt().float()


class WorldModel(nn.Module):
    """N MLPs of one shape, computed together, that predict from a state [O] and one of A actions (Chua et al. 2018).

    Inputs and targets are scaled to mean 0 and standard deviation 1 with the statistics that observe() collects. Each
    member has different initial weights, drawn from torch's generator.
    """

    def __init__(self, observation: int, actions: int, hidden: tuple[int, ...], members: int) -> None:
        super().__init__()
        self.members = members
        self._actions = actions
        self._width = observation
        sizes = (observation + actions, *hidden, observation + 2)
        count = members * sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
        require_parameters("model_hidden", hidden, count)
        self.weights = nn.ParameterList(
            (2 * torch.rand(members, inputs, outputs) - 1) / inputs**0.5 for inputs, outputs in pairwise(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(members, 1, outputs) for outputs in sizes[1:])
        self.inputs = _Scale(observation)
        self.targets = _Scale(observation + 1)  # a state's change, and the reward

    def observe(self, observation: Tensor, change: Tensor, reward: Tensor, weight: Tensor) -> None:
        """Adds transitions [B, ...] with these weights [B] to the statistics for scaling inputs and targets."""
        self.inputs.add(observation, weight)
        self.targets.add(torch.cat((change, reward[:, None]), 1), weight)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Scaled change and reward, and the logit of termination [N, B, O + 2], for states [B, O] or [N, B, O]."""
        state = (observation - self.inputs.mean.float()) / self.inputs.deviation
        x = torch.cat((state, functional.one_hot(action, self._actions).float()), -1)
        if x.dim() == 2:
            x = x.expand(self.members, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if index < last:
                x = functional.silu(x)
        return x

    def scaled(self, change: Tensor, reward: Tensor) -> Tensor:
        """Targets [B, O + 1] for the first O + 1 outputs."""
        target = torch.cat((change, reward[:, None]), 1)
        return (target - self.targets.mean.float()) / self.targets.deviation

    @torch.no_grad()
    def predict(self, observation: Tensor, action: Tensor) -> Prediction:
        """Predictions of each member in the environment's units."""
        output = self(observation, action)
        values = output[..., :-1] * self.targets.deviation + self.targets.mean.float()
        return Prediction(values[..., :-1], values[..., -1], output[..., -1])

    @torch.no_grad()
    def disagreement(self, prediction: Prediction) -> Tensor:
        """Disagreement of the members [B]: the largest of three standard deviations over the members.

        They are those of the change, averaged over its features, and of the reward, both in units of their standard
        deviation in the data, and that of the probability of termination in units of 0.5, its maximum.
        """
        deviation = self.targets.deviation
        change = (prediction.change.std(0, correction=0) / deviation[:-1]).mean(1)
        reward = prediction.reward.std(0, correction=0) / deviation[-1]
        termination = prediction.done.sigmoid().std(0, correction=0) / 0.5
        return torch.stack((change, reward, termination)).amax(0)
