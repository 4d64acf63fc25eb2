"""DQN's gradient step."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.algorithms.base import Update
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.flat import clip_norm, local_vectors, open_module, optimizer_options
from headrace.algorithms.modules import Follower, Learned, copy_weights, to_device
from headrace.algorithms.targets import double_q_target, huber, q_target, squared, td_error
from headrace.gradients.base import OpenVector
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["DQNUpdater"]


class DQNUpdater:
    """Online and target network, and the online network's parameter vector; implements `algorithms.base.Updater`.

    See `Algorithm.make_updater()` for the arguments and errors.
    """

    def __init__(
        self,
        config: DQN,
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
        self._online = PolicyNetwork(self.architecture).to(device)
        open_vector = open_vector or local_vectors(device)
        self._vector = open_module(open_vector, self._online, optimizer_options(config))
        self._target = PolicyNetwork(self.architecture).to(device).requires_grad_(False)
        self._target.load_state_dict(self._online.state_dict())
        self._learned = Learned({"target": self._target}, {"vector": self._vector})
        pairs = ((self._target, self._online),)
        self._follower = Follower(pairs, config.target_update_period, config.target_update_rate)
        self._loss = huber if config.loss == "huber" else squared
        self._followed = self._vector.version

    @property
    def network(self) -> PolicyNetwork:
        """The online network."""
        return self._online

    @property
    def target_network(self) -> PolicyNetwork:
        """The target network."""
        return self._target

    @property
    def version(self) -> int:
        """Number of updates of the online network."""
        return self._vector.version

    def pull(self) -> int:
        """Updates the online network; moves the target as often as was due since the last call."""
        version = self._vector.pull()
        self._follower.follow(self._followed, version)
        self._followed = version
        return version

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        return to_device(batch, self._device)

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """One gradient step on the weighted loss of TD errors, [B] each."""
        self.pull()
        observation, next_observation, action, reward, discount, weight = tensors
        with torch.no_grad():
            target = self.target(observation, next_observation, action, reward, discount)
        error = td_error(self._online(observation), action, target)
        loss = (weight * self._loss(error)).mean()
        self._vector.gradient.zero_()
        torch.autograd.backward(loss)
        clip_norm(self._vector.gradient, self._config.max_gradient_norm)
        self._vector.apply()
        return Update(error.detach().abs().cpu().numpy(), loss.item())

    def target(
        self, observation: Tensor, next_observation: Tensor, action: Tensor, reward: Tensor, discount: Tensor
    ) -> Tensor:
        """Targets [B] of Q(s_t, a_t), computed without gradients. Subclasses override it for other targets."""
        q_tpn = self._target(next_observation)
        if self._config.double:
            return double_q_target(reward, discount, q_tpn, self._online(next_observation))
        return q_target(reward, discount, q_tpn)

    def weights(self) -> dict[str, Array]:
        """The online network's parameters."""
        self.pull()
        return copy_weights(self._online)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Q values [B, A] for observations [B, *input]."""
        q: NDArray[np.float32] = self._online(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return q

    def state(self) -> dict[str, Tensor]:
        """The target network, the vector with its optimizer moments, and the number of updates."""
        self.pull()
        return self._learned.state(self._followed)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._followed = self._learned.load(state)
