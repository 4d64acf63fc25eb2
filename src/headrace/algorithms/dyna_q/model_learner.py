"""Fits a world model to real transitions and measures its error."""

from math import inf, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import Optimizer, OptimizerOptions
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.algorithms.dyna_q.rules import model_loss, relative_error
from headrace.errors import DivergenceError
from headrace.networks.world_model import WorldModel
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["ModelLearner", "change", "held_out"]

_HELD_OUT = 10
"""One of this many transitions is never used for training."""
_RECENT_ROWS = 2048
"""Number of the newest held-out transitions on which the error is measured."""
_JUDGED_PERIOD = 20
"""Updates between measurements of the error."""
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # constants of splitmix64 (Steele et al. 2014)
_Floats = NDArray[np.float32]


def held_out(key: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether transitions [B] are excluded from training; constant for a transition as long as it is stored."""
    mixed = key * _MIX[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[1]
    out: NDArray[np.bool_] = (mixed >> np.uint64(32)) % np.uint64(_HELD_OUT) == 0
    return out


def change(observation: _Floats, next_observation: _Floats) -> _Floats:
    """The model's prediction target for states [B, O]: s_{t+1} - s_t."""
    return next_observation - observation


class _HeldOut(NamedTuple):
    """Transitions [B] that are not used for training."""

    observation: _Floats  # [B, O]
    change: _Floats  # [B, O]
    action: NDArray[np.int64]  # [B]
    reward: _Floats  # [B]
    weight: _Floats  # [B]


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
        random = np.random.Generator(np.random.PCG64(seed))
        width = spec.observation_shape[0]
        self.model = WorldModel(width, spec.actions, config.model_hidden, config.ensemble_size, random)
        options = OptimizerOptions("adam", learning_rate=config.model_learning_rate)
        self._optimizer = Optimizer(options, len(self.model.parameters))
        self._recent: list[_HeldOut] = []  # the newest, oldest first

    def learn(self, batch: Batch) -> float:
        """One update of all members, each on its share of the rows that are not held out; returns the loss.

        If all rows are held out, the update counts but changes nothing. Raises DivergenceError.
        """
        observation, next_observation = (
            states.astype(np.float32, copy=False) for states in (batch.observation, batch.next_observation)
        )
        changes = change(observation, next_observation)
        out = held_out(batch.key)
        train = batch.weight * ~out
        rows = _HeldOut(observation, changes, batch.action, batch.reward, batch.weight)
        self._keep(_HeldOut._make(column[out] for column in rows))
        self.version += 1
        if not train.any():
            return 0.0
        self.model.observe(observation, changes, batch.reward, train)
        columns = (observation, batch.action, self.model.scaled(changes, batch.reward), batch.discount == 0, train)
        states, actions, target, done, weight = map(self._by_member, columns)
        loss = model_loss(self.model.forward(states, actions), target, done, weight)
        value = loss.value / self.model.members
        if not isfinite(value):
            raise DivergenceError(
                f"training diverged: the world model's loss of update {self.version} is {value}; "
                "a smaller model_learning_rate is required"
            )
        self.model.backward(loss.gradient)
        self._optimizer.apply(self.model.parameters, self.model.gradient)
        if self.version % _JUDGED_PERIOD == 0:
            self.error = self._measure_error()
        return value

    def _by_member(self, rows: Array) -> Array:
        """Rows [B * N, ...] as [N, B, ...]: each N-th is one member's, since a table samples from its oldest on."""
        return np.ascontiguousarray(rows.reshape(-1, self.model.members, *rows.shape[1:]).swapaxes(0, 1))

    def _keep(self, rows: _HeldOut) -> None:
        self._recent.append(rows)
        while sum(len(each.reward) for each in self._recent[1:]) >= _RECENT_ROWS:
            del self._recent[0]

    def _measure_error(self) -> float:
        """Error of the members' mean on the newest held-out transitions."""
        rows = _HeldOut._make(map(np.concatenate, zip(*self._recent, strict=True)))
        if not len(rows.reward):
            return inf
        output = self.model.forward(rows.observation, rows.action)
        return relative_error(output, self.model.scaled(rows.change, rows.reward), rows.weight)
