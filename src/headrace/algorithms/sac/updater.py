"""Soft actor-critic's gradient step."""

from collections.abc import Mapping
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headrace._native import OptimizerOptions
from headrace.algorithms.base import Update
from headrace.algorithms.flat import flatten, local_vectors, open_module
from headrace.algorithms.modules import Follower, Learned, copy_weights, to_device
from headrace.algorithms.sac.config import SAC
from headrace.algorithms.sac.critics import TwinCritics
from headrace.algorithms.sac.rules import gaussian, soft_target, squashed_log_probability, temperature_loss
from headrace.errors import CheckpointError
from headrace.gradients.base import OpenVector
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["SACUpdater"]

_RANDOM = "random"


class _Temperature(nn.Module):
    """The log temperature as a module with one parameter."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(log(initial)))


class SACUpdater:
    """Policy, twin critics with their targets, and temperature; implements `algorithms.base.Updater`.

    The policy, the critics and the log temperature each have a parameter vector with its own Adam. See
    `Algorithm.make_updater()` for the arguments. Raises ConfigError also if observations need a CNN.
    """

    def __init__(
        self,
        config: SAC,
        spec: EnvironmentSpec,
        device: torch.device,
        seed: int,
        open_vector: OpenVector | None = None,
    ) -> None:
        config.require_spaces(spec)
        self._config = config
        self._device = device
        torch.manual_seed(seed)
        self.architecture = config.architecture(spec)
        self._policy = PolicyNetwork(self.architecture).to(device)
        self._critics, self._target_critics = (
            TwinCritics(self.architecture, spec.actions, config.critic_hidden).to(device) for _ in range(2)
        )
        self._temperature = _Temperature(config.initial_temperature).to(device)
        open_vector = open_vector or local_vectors(device)
        self._vectors = {
            name: open_module(open_vector, module, OptimizerOptions("adam", learning_rate=rate))
            for name, module, rate in (
                ("policy", self._policy, config.learning_rate),
                ("critics", self._critics, config.critic_learning_rate),
                ("temperature", self._temperature, config.temperature_learning_rate),
            )
        }
        self._target_critics.load_state_dict(self._critics.state_dict())
        pairs = ((flatten(self._target_critics), self._vectors["critics"].parameters),)
        self._follower = Follower(pairs, config.target_update_period, config.target_update_rate)
        self._learned = Learned({"target_critics": self._target_critics}, self._vectors)
        self._target_entropy = -float(spec.actions) if config.target_entropy is None else config.target_entropy
        # On the CPU, so that a checkpoint continues on any device.
        self._random = torch.Generator().manual_seed(seed)
        self._followed = self._vectors["critics"].version

    @property
    def version(self) -> int:
        """Number of updates of the policy."""
        return self._vectors["policy"].version

    @property
    def temperature(self) -> float:
        """Weight of the entropy in the objective (alpha)."""
        return self._temperature.log.exp().item()

    def pull(self) -> int:
        """Updates policy, critics and temperature; moves the targets as often as was due since the last call."""
        for vector in self._vectors.values():
            vector.pull()
        version = self._vectors["critics"].version
        self._follower.follow(self._followed, version)
        self._followed = version
        return self.version

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        return to_device(batch, self._device)

    def update(self, fields: tuple[Tensor, ...]) -> Update:
        """One step of critics, policy and temperature, all from the parameters before the step.

        The priority is |TD error|, the mean of the two critics'; the loss is the sum of the critics' weighted losses.
        The importance weights apply to the critics only.
        """
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        noise, next_noise = torch.randn(2, *action.shape, generator=self._random).to(self._device)
        for vector in self._vectors.values():
            vector.gradient.zero_()
        target = self._target(next_observation, reward, discount, next_noise)
        error = target - self._critics(observation, action)  # [2, B]
        loss = (weight * 0.5 * error.square()).mean(1).sum()
        torch.autograd.backward(loss)
        log_probability = self._descend(observation, noise)
        torch.autograd.backward(temperature_loss(self._temperature.log, log_probability, self._target_entropy))
        for vector in self._vectors.values():
            vector.apply()
        return Update(error.detach().abs().mean(0).cpu().numpy(), loss.item())

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        self.pull()
        return copy_weights(self._policy)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Means and unclipped log standard deviations [B, 2A] for observations [B, *input]."""
        output: NDArray[np.float32] = self._policy(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return output

    def state(self) -> dict[str, Tensor]:
        """Target critics, the vectors with their optimizer moments, the random state, and the number of updates."""
        self.pull()
        return self._learned.state(self._followed) | {_RANDOM: self._random.get_state()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._followed = self._learned.load({name: value for name, value in state.items() if name != _RANDOM})
        try:
            self._random.set_state(state[_RANDOM].cpu())
        except (KeyError, RuntimeError, TypeError) as error:
            raise CheckpointError(f"the checkpoint's random state does not fit: {error}") from error

    @torch.no_grad()
    def _target(self, next_observation: Tensor, reward: Tensor, discount: Tensor, noise: Tensor) -> Tensor:
        """Soft n-step targets [B], with an action that the current policy samples."""
        action, log_probability = self._sample(next_observation, noise)
        q_tpn = self._target_critics(next_observation, action)
        return soft_target(reward, discount, q_tpn, log_probability, self._temperature.log.exp())

    def _descend(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Adds the gradient of alpha log pi(a | s) - min_i Q_i(s, a) to the policy's; returns log pi(a | s) [B].

        Equation 9, a mean over the batch. The graph is cut at the action, so that no gradient of the critics'
        parameters is computed.
        """
        action, log_probability = self._sample(observation, noise)
        leaf = action.detach().requires_grad_()
        (dq_da,) = torch.autograd.grad(self._critics(observation, leaf).amin(0).sum(), leaf)
        temperature = self._temperature.log.detach().exp()
        torch.autograd.backward((temperature * log_probability - (dq_da * action).sum(1)).mean())
        return log_probability.detach()

    def _sample(self, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] of the policy for this noise [B, A], differentiable, and their log densities [B]."""
        mean, log_sigma = gaussian(self._policy(observation))
        u = mean + log_sigma.exp() * noise
        return u.tanh(), squashed_log_probability(noise, log_sigma, u)
