"""DQN's gradient step."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.algorithms.base import Update
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.modules import Learned, copy_weights, move_target, to_device
from headrace.algorithms.targets import double_q_target, huber, q_target, squared, td_error
from headrace.errors import ConfigError
from headrace.networks.architecture import Architecture
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["DQNUpdater"]


class DQNUpdater:
    """Online and target network with Adam; implements `algorithms.base.Updater`.

    Raises ConfigError where actions are continuous.
    """

    def __init__(self, config: DQN, spec: EnvironmentSpec, device: torch.device, seed: int) -> None:
        if spec.continuous:
            raise ConfigError("algorithm is dqn, and the environment's actions are continuous: d4pg is required")
        self._config = config
        self._device = device
        torch.manual_seed(seed)
        self.architecture = Architecture.of(spec, config.network, config.hidden, config.duelling)
        self._online = PolicyNetwork(self.architecture).to(device)
        self._target = PolicyNetwork(self.architecture).to(device).requires_grad_(False)
        self._target.load_state_dict(self._online.state_dict())
        self._parameters = list(self._online.parameters())
        self._optimizer = torch.optim.Adam(
            self._parameters, lr=config.learning_rate, eps=config.adam_epsilon, fused=True
        )
        self._learned = Learned({"online": self._online, "target": self._target}, {"adam": self._optimizer})
        self._loss = huber if config.loss == "huber" else squared
        self._updates = 0

    @property
    def network(self) -> PolicyNetwork:
        """The online network."""
        return self._online

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        return to_device(batch, self._device)

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """One step down the weighted loss of TD errors, [B] each."""
        observation, next_observation, action, reward, discount, weight = tensors
        with torch.no_grad():
            q_tpn = self._target(next_observation)
            if self._config.double:
                target = double_q_target(reward, discount, q_tpn, self._online(next_observation))
            else:
                target = q_target(reward, discount, q_tpn)
        error = td_error(self._online(observation), action, target)
        loss = (weight * self._loss(error)).mean()
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        if self._config.max_gradient_norm > 0:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._config.max_gradient_norm)
        self._optimizer.step()
        self._updates += 1
        if self._updates % self._config.target_update_period == 0:
            move_target(self._target, self._online, self._config.target_update_rate)
        return Update(error.detach().abs().cpu().numpy(), loss.item())

    def weights(self) -> dict[str, Array]:
        """The online network's parameters."""
        return copy_weights(self._online)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Q values [B, A] of observations [B, *input]."""
        q: NDArray[np.float32] = self._online(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return q

    def state(self) -> dict[str, Tensor]:
        """Networks, Adam's moments and the count of updates."""
        return self._learned.state(self._updates)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave; raises CheckpointError where names or shapes differ."""
        self._updates = self._learned.load(state)
