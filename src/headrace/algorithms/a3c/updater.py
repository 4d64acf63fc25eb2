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
)
from headrace.algorithms.base import Update
from headrace.algorithms.flat import clip_norm, flat_values, lay_out, open_vector, optimizer_options
from headrace.algorithms.modules import copy_weights
from headrace.gradients.base import OpenVector
from headrace.networks.actor_critic import ActorCritic
from headrace.networks.architecture import Architecture
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["A3CUpdater"]


class A3CUpdater:
    """Policy and value, and the vector of their parameters; implements `algorithms.base.Updater`.

    The caller must pull() before each rollout: update() computes the gradient at the parameters that chose the actions.
    `open_` creates the vector, which may be shared with other workers; by default it belongs to this process.
    """

    def __init__(
        self, config: A3C, spec: EnvironmentSpec, device: torch.device, seed: int, open_: OpenVector | None = None
    ) -> None:
        self._config = config
        self._device = device
        self._continuous = spec.continuous
        torch.manual_seed(seed)
        self.architecture = Architecture.of(spec, config.network, config.hidden)
        self._network = ActorCritic(self.architecture, config.trunk).to(device)
        self._vector = (open_ or open_vector(optimizer_options(config), device))(flat_values(self._network))
        lay_out(self._network, self._vector)

    @property
    def version(self) -> int:
        """Number of updates of the parameters."""
        return self._vector.version

    @property
    def sigma(self) -> NDArray[np.float32]:
        """Standard deviations [A] of continuous actions."""
        sigma: NDArray[np.float32] = self._network.log_sigma.detach().exp().cpu().numpy()
        return sigma

    def pull(self) -> int:
        """Updates the parameters if that is due; returns their version."""
        return self._vector.pull()

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, action and return on the learner's device; the batch's reward already includes the bootstrap."""
        fields = (batch.observation, batch.action, batch.reward)
        return tuple(torch.from_numpy(field).to(self._device) for field in fields)

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """Maximizes log pi(a) (R - V) + entropy, minimizes (R - V)^2 / 2 (Mnih et al. 2016, section 4); means over B.

        The priority is |R - V|.
        """
        observation, action, return_ = tensors
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

    def state(self) -> dict[str, Tensor]:
        """The vector's parameters, optimizer moments and steps."""
        return self._vector.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._vector.load(state)

    def _tensor(self, observation: Array) -> Tensor:
        return torch.from_numpy(observation).to(self._device)
