"""Soft actor-critic's gradient step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Update
from headrace.algorithms.learned import Follower, Learned, adam
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.sac.config import SAC
from headrace.algorithms.sac.rules import policy_gradient, sample, smaller_gradient, soft_target
from headrace.algorithms.sac.temperature import Temperature, temperature_layout
from headrace.algorithms.targets import critic_gradient, critic_loss
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.twin_critics import TwinCritics
from headrace.types import EnvironmentSpec

__all__ = ["SACUpdater"]


class SACUpdater(OffPolicyUpdater):
    """Policy, twin critics with their targets, and temperature.

    The policy, the critics and the log temperature each have a parameter vector with its own Adam.
    """

    def __init__(self, config: SAC, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        architecture = config.architecture(spec)
        policy = PolicyNetwork(architecture)
        critics = TwinCritics(architecture, spec.actions, config.critic_hidden)
        self._random = opener.random
        policy_vector, self._policy = opener.learned(policy, adam(config.learning_rate))
        critics_vector, self._critics = opener.learned(critics, adam(config.critic_learning_rate))
        temperature = temperature_layout(config.initial_temperature)
        temperature_vector = opener.vector(temperature, adam(config.temperature_learning_rate))
        target, self._target_critics = opener.target(critics, critics_vector)
        self._vectors = {"policy": policy_vector, "critics": critics_vector, "temperature": temperature_vector}
        self.temperature = Temperature(temperature_vector, config.target_entropy, spec.actions)
        super().__init__(
            architecture,
            self._policy,
            policy_vector,
            Learned({"target_critics": target}, self._vectors, self._random),
            Follower((target,), config.target_update_period, config.target_update_rate),
            followed=critics_vector,
        )

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One step of critics, policy and temperature, all from the parameters before the step.

        The priority is |TD error|, the mean of the two critics'; the loss is the sum of the critics' weighted losses.
        The importance weights apply to the critics only.
        """
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        noise, next_noise = self._random.standard_normal((2, *action.shape), np.float32)
        target = self._target(next_observation, reward, discount, next_noise)
        error = target[:, None] - self._critics.forward(observation, action)  # [B, 2]
        self._critics.backward(critic_gradient(error, weight))
        self._descend(observation, noise)
        for vector in self._vectors.values():
            vector.apply()
        return Update(np.abs(error).mean(1), critic_loss(error, weight))

    def _target(
        self,
        next_observation: Any,
        reward: NDArray[np.float32],
        discount: NDArray[np.float32],
        noise: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Soft n-step targets [B], with an action that the current policy samples."""
        action, log_probability, _ = sample(self._policy.output(next_observation), noise)
        q_tpn = self._target_critics.output(next_observation, action)
        return soft_target(reward, discount, q_tpn, log_probability, self.temperature.value)

    def _descend(self, observation: Any, noise: NDArray[np.float32]) -> None:
        """Writes the gradients of policy and temperature: of the mean of alpha log pi(a | s) - min_i Q_i(s, a)."""
        output = self._policy.forward(observation)
        sampled = sample(output, noise)
        q_t = self._critics.forward(observation, sampled.action)
        slope = self._critics.differentiate(smaller_gradient(q_t))
        self._policy.backward(policy_gradient(output, sampled, slope, self.temperature.value))
        self.temperature.descend(sampled.log_probability)
