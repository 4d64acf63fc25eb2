"""A3C's gradient step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.a3c.rules import (
    categorical_entropy,
    categorical_gradient,
    categorical_log_probability,
    gaussian_entropy,
    gaussian_gradient,
    gaussian_log_probability,
    n_step_returns,
)
from headrace.algorithms.a3c.sampling import sample_categorical, sample_gaussian
from headrace.algorithms.base import Update
from headrace.algorithms.learned import optimizer_options
from headrace.algorithms.opener import NetworkOpener
from headrace.gradients.flat import clip_norm, read_vector, write_vector
from headrace.networks.actor_critic import ActorCritic
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["A3CUpdater"]


class A3CUpdater:
    """Policy and value, and the vector of their parameters; implements `algorithms.base.Updater` and `RolloutPolicy`.

    The caller must pull() before each rollout: update() computes the gradient at the parameters that chose the actions.
    """

    def __init__(self, config: A3C, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        self._continuous = spec.continuous
        self.architecture = config.architecture(spec)
        self._sigmas = spec.actions if spec.continuous else 0
        network = ActorCritic(self.architecture, config.trunk, self._sigmas)
        self._vector, self._network = opener.learned(network, optimizer_options(config))

    @property
    def version(self) -> int:
        """Number of updates of the parameters."""
        return self._vector.version

    def pull(self) -> int:
        """Updates the parameters if that is due; returns their version."""
        return self._vector.pull()

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        """observation, placed for the network; action and return; the batch's reward already includes the bootstrap."""
        return self._network.place(batch.observation), batch.action, batch.reward

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """Maximizes log pi(a) (R - V) + entropy, minimizes (R - V)^2 / 2 (Mnih et al. 2016, section 4); means over B.

        The priority is |R - V|.
        """
        observation, action, return_ = fields
        config = self._config
        y = self._network.forward(observation)
        output, value = y[:, :-1], y[:, -1]
        error = return_ - value
        dy = np.empty_like(y)
        dy[:, -1] = error * (-config.value_weight / len(error))
        if self._continuous:
            log_sigma = self._log_sigma()
            log_probability = gaussian_log_probability(output, log_sigma, action)
            entropy = gaussian_entropy(log_sigma)
            dy[:, :-1], by_log_sigma = gaussian_gradient(output, log_sigma, action, error, config.entropy_bonus)
        else:
            log_probability = categorical_log_probability(output, action)
            entropy = float(categorical_entropy(output).mean())
            dy[:, :-1] = categorical_gradient(output, action, error, config.entropy_bonus)
        self._network.backward(dy)
        if self._continuous:
            write_vector(self._vector.gradient[: self._sigmas], by_log_sigma)
        clip_norm(self._vector.gradient, config.max_gradient_norm)
        self._vector.apply()
        gain = float((log_probability * error).mean())
        loss = config.value_weight * 0.5 * float((error * error).mean()) - gain - config.entropy_bonus * entropy
        return Update(np.abs(error), loss)

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        self._vector.pull()
        layout = self.architecture.layout
        return layout.views(read_vector(self._vector.parameters[self._sigmas : self._sigmas + layout.size]))

    def act(self, observation: Array) -> NDArray[np.float32]:
        """Logits, or means in [-1, 1], [B, A] for observations [B, *input]."""
        return self._network.output(self._network.place(observation))[:, :-1]

    def values(self, observation: Array) -> NDArray[np.float32]:
        """Values [B] of observations [B, *input]."""
        return self._network.output(self._network.place(observation))[:, -1]

    def sample(self, observation: Array, random: np.random.Generator) -> Array:
        """Actions drawn from the policy: [B], or continuous [B, A] before they are clipped to [-1, 1]."""
        output = self.act(observation)
        return (
            sample_gaussian(output, np.exp(self._log_sigma()), random)
            if self._continuous
            else sample_categorical(output, random)
        )

    def returns(
        self, reward: NDArray[np.float32], discount: NDArray[np.float32], bootstrap: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See `n_step_returns()`."""
        return n_step_returns(reward, discount, bootstrap)

    def state(self) -> dict[str, Array]:
        """The vector's parameters, optimizer moments and steps."""
        return self._vector.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._vector.load(state)

    def _log_sigma(self) -> NDArray[np.float32]:
        """Log standard deviations [A] of continuous actions."""
        return read_vector(self._vector.parameters[: self._sigmas])
