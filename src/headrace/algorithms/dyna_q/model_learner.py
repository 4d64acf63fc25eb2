"""Fits a world model to real transitions and measures its error."""

from math import inf, isfinite

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headrace.algorithms.dyna_q.config import DynaQ
from headrace.errors import DivergenceError
from headrace.networks.world_model import WorldModel
from headrace.types import Batch, EnvironmentSpec

__all__ = ["ModelLearner", "change", "held_out"]

_HELD_OUT = 10
"""One of this many transitions is never used for training."""
_RECENT_ROWS = 2048
"""Number of the newest held-out transitions on which the error is measured."""
_JUDGED_PERIOD = 20
"""Updates between measurements of the error."""
_SMALLEST_SPREAD = 1e-3
"""Lower limit on the spread of targets, so that a tiny error on nearly constant targets does not count as large."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # constants of splitmix64 (Steele et al. 2014)


def held_out(key: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether transitions [B] are excluded from training; constant for a transition as long as it is stored."""
    mixed = key * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[1]
    out: NDArray[np.bool_] = (mixed >> np.uint64(32)) % np.uint64(_HELD_OUT) == 0
    return out


def change(observation: Tensor, next_observation: Tensor) -> Tensor:
    """The model's prediction target for states [B, O]: s_{t+1} - s_t, float32."""
    return (next_observation - observation).float()


class ModelLearner:
    """A world model and its optimizer. One thread.

    Batches contain N * B one-step transitions, B for each member, with importance weights that correct for how they
    were sampled, and a discount of 0 if the episode terminated, else 1.
    """

    def __init__(self, config: DynaQ, spec: EnvironmentSpec, seed: int) -> None:
        self.version = 0
        """Number of updates."""
        self.error = inf
        """Mean |error| on held-out transitions relative to that of predicting the mean; over changes and reward."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            width = spec.observation_shape[0]
            self.model = WorldModel(width, spec.actions, config.model_hidden, config.ensemble_size)
        parameters = list(self.model.parameters())
        self._optimizer = torch.optim.Adam(parameters, config.model_learning_rate, foreach=True)
        self._recent: list[Tensor] = []  # rows of the newest held-out transitions, oldest first

    def learn(self, batch: Batch) -> float:
        """One update of all members, each on its share of the rows that are not held out; returns the loss.

        If all rows are held out, the update counts but changes nothing. Raises DivergenceError.
        """
        fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)
        observation, next_observation, action, reward, discount, weight = map(torch.from_numpy, fields)
        observation, next_observation = observation.float(), next_observation.float()
        out = torch.from_numpy(held_out(batch.key))
        changes = change(observation, next_observation)
        done = (discount == 0).float()
        train = weight * ~out
        columns = (observation, changes, action[:, None], reward[:, None], weight[:, None])
        self._keep(torch.cat([column[out] for column in columns], 1))
        self.version += 1
        if not train.any():
            return 0.0
        self.model.observe(observation, changes, reward, train)
        members = self.model.members
        output = self.model(observation.view(members, -1, observation.shape[1]), action.view(members, -1))
        target = self.model.scaled(changes, reward).view(*output.shape[:2], -1)
        squared = (output[..., :-1] - target).square().mean(-1)
        termination = functional.binary_cross_entropy_with_logits(
            output[..., -1], done.view(members, -1), reduction="none"
        )
        shares = train.view(members, -1)
        loss = ((squared + termination) * shares).sum() / shares.sum(1).mean()
        value = loss.item() / members
        if not isfinite(value):
            raise DivergenceError(
                f"training diverged: the world model's loss of update {self.version} is {value}; "
                "a smaller model_learning_rate is required"
            )
        self._optimizer.zero_grad(set_to_none=False)
        torch.autograd.backward(loss)
        self._optimizer.step()
        if self.version % _JUDGED_PERIOD == 0:
            self.error = self._measure_error()
        return float(value)

    def _keep(self, rows: Tensor) -> None:
        self._recent.append(rows)
        while sum(map(len, self._recent[1:])) >= _RECENT_ROWS:
            del self._recent[0]

    @torch.no_grad()
    def _measure_error(self) -> float:
        """Error of the members' mean on the newest held-out transitions."""
        rows = torch.cat(self._recent)
        width = (rows.shape[1] - 3) // 2
        observation, changes, action, reward, weight = torch.split(rows, [width, width, 1, 1, 1], 1)
        if not len(rows):
            return inf
        output = self.model(observation, action.squeeze(1).long())[..., :-1].mean(0)
        target = self.model.scaled(changes, reward.squeeze(1))
        missed = (weight * (output - target).abs()).sum()
        spread = (weight * target.abs()).sum().clamp_min(_SMALLEST_SPREAD * weight.sum())
        return float(missed / spread)
