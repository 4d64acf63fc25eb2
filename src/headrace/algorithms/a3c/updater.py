"""A3C's gradient step."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.a3c.rules import (
    categorical_entropy,
    categorical_log_probability,
    gaussian_entropy,
    gaussian_log_probability,
    n_step_returns,
)
from headrace.algorithms.a3c.sampling import sample_categorical, sample_gaussian
from headrace.algorithms.base import Update
from headrace.algorithms.flat import clip_norm, local_vectors, open_module, optimizer_options
from headrace.algorithms.modules import copy_weights
from headrace.gradients.base import OpenVector
from headrace.networks.actor_critic import ActorCritic
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["A3CUpdater"]


class A3CUpdater:
    """Policy and value, and the vector of their parameters; implements `algorithms.base.Updater` and `RolloutPolicy`.

    The caller must pull() before each rollout: update() computes the gradient at the parameters that chose the actions.
    See `Algorithm.make_updater()` for the arguments and errors.
    """

    def __init__(
        self,
        config: A3C,
        spec: EnvironmentSpec,
        device: torch.device,
        seed: int,
        open_vector: OpenVector | None = None,
    ) -> None:
        config.require_spaces(spec)
        self._config = config
        self._device = device
        self._continuous = spec.continuous
        torch.manual_seed(seed)
        self.architecture = config.architecture(spec)
        sigmas = spec.actions if spec.continuous else 0
        self._network = ActorCritic(self.architecture, config.trunk, sigmas).to(device)
        open_vector = open_vector or local_vectors(device)
        self._vector = open_module(open_vector, self._network, optimizer_options(config))

    @property
    def network(self) -> ActorCritic:
        """Policy and value."""
        return self._network

    @property
    def version(self) -> int:
        """Number of updates of the parameters."""
        return self._vector.version

    def pull(self) -> int:
        """Updates the parameters if that is due; returns their version."""
        return self._vector.pull()

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, action and return on the learner's device; the batch's reward already includes the bootstrap."""
        fields = (batch.observation, batch.action, batch.reward)
        return tuple(torch.from_numpy(field).to(self._device) for field in fields)

    def update(self, fields: tuple[Tensor, ...]) -> Update:
        """Maximizes log pi(a) (R - V) + entropy, minimizes (R - V)^2 / 2 (Mnih et al. 2016, section 4); means over B.

        The priority is |R - V|.
        """
        observation, action, return_ = fields
        output, value = self._network(observation)
        error = return_ - value
        if self._continuous:
            log_sigma = self._network.log_sigma
            log_probability = gaussian_log_probability(output, log_sigma, action)
            entropy = gaussian_entropy(log_sigma)
        else:
            log_probability = categorical_log_probability(output, action)
            entropy = categorical_entropy(output).mean()
        gain = (log_probability * error.detach()).mean()
        config = self._config
        loss = config.value_weight * 0.5 * error.square().mean() - gain - config.entropy_bonus * entropy
        self._vector.gradient.zero_()
        torch.autograd.backward(loss)
        clip_norm(self._vector.gradient, config.max_gradient_norm)
        self._vector.apply()
        return Update(error.detach().abs().cpu().numpy(), loss.item())

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        self._vector.pull()
        return copy_weights(self._network.policy)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Logits, or means in [-1, 1], [B, A] for observations [B, *input]."""
        output: NDArray[np.float32] = self._network.policy(self._tensor(observation)).cpu().numpy()
        return output

    @torch.inference_mode()
    def values(self, observation: Array) -> NDArray[np.float32]:
        """Values [B] of observations [B, *input]."""
        value: NDArray[np.float32] = self._network(self._tensor(observation))[1].cpu().numpy()
        return value

    def sample(self, observation: Array, random: np.random.Generator) -> Array:
        """Actions drawn from the policy: [B], or continuous [B, A] before they are clipped to [-1, 1]."""
        output = self.act(observation)
        if self._continuous:
            return sample_gaussian(output, self._network.log_sigma.detach().exp().cpu().numpy(), random)
        return sample_categorical(output, random)

    def returns(
        self, reward: NDArray[np.float32], discount: NDArray[np.float32], bootstrap: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See `n_step_returns()`."""
        returns = n_step_returns(*(torch.from_numpy(each) for each in (reward, discount, bootstrap)))
        result: NDArray[np.float32] = returns.numpy()
        return result

    def state(self) -> dict[str, Tensor]:
        """The vector's parameters, optimizer moments and steps."""
        return self._vector.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._vector.load(state)

    def _tensor(self, observation: Array) -> Tensor:
        return torch.from_numpy(observation).to(self._device)
