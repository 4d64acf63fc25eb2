"""DQN's gradient step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Update
from headrace.algorithms.dqn.branches import branch_loss, branch_target
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.learned import Follower, Learned, optimizer_options
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.targets import double_q_target, huber, q_gradient, q_target, squared, td_error
from headrace.gradients.flat import clip_norm
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import EnvironmentSpec

__all__ = ["DQNUpdater"]


class DQNUpdater(OffPolicyUpdater):
    """The Q network, the vector of its parameters, and its target network."""

    def __init__(self, config: DQN, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        self._branches = spec.branches
        architecture = config.architecture(spec)
        network = PolicyNetwork(architecture)
        vector, policy = opener.learned(network, optimizer_options(config))
        target, self._target = opener.target(network, vector)
        self._loss = huber if config.loss == "huber" else squared
        super().__init__(
            architecture,
            policy,
            vector,
            Learned({"target": target}, {"vector": vector}),
            Follower((target,), config.target_update_period, config.target_update_rate),
            followed=vector,
        )

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One gradient step on the weighted loss of TD errors, [B] each."""
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        target = self.target(observation, next_observation, action, reward, discount)
        q_t = self._policy.forward(observation)
        if self._branches:
            value, priority, gradient = branch_loss(q_t, action, target, weight, self._loss, self._branches)
        else:
            error = td_error(q_t, action, target)
            loss = self._loss(error)
            value, priority, gradient = loss.value, np.abs(error), q_gradient(q_t, action, loss.slope, weight)
        self._policy.backward(gradient)
        clip_norm(self._policy_vector.gradient, self._config.max_gradient_norm)
        self._policy_vector.apply()
        return Update(priority, float(np.dot(weight, value)) / len(weight))

    def target(
        self,
        observation: Any,
        next_observation: Any,
        action: NDArray[np.int64],
        reward: NDArray[np.float32],
        discount: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Targets [B] of Q(s_t, a_t), for placed observations. Subclasses override it for other targets."""
        q_tpn = self.target_values(next_observation)
        if self._branches:
            selector = self._policy.output(next_observation) if self._config.double else q_tpn
            return branch_target(reward, discount, q_tpn, selector, self._branches)
        if self._config.double:
            return double_q_target(reward, discount, q_tpn, self._policy.output(next_observation))
        return q_target(reward, discount, q_tpn)

    def target_values(self, observation: Any) -> NDArray[np.float32]:
        """The target network's Q values [B, A] of placed observations."""
        return self._target.output(observation)
