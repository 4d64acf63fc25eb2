"""D4PG's gradient step."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Update
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.d4pg.rules import (
    cross_entropy,
    cross_entropy_gradient,
    policy_gradient,
    value_gradient,
)
from headrace.algorithms.learned import Follower, Learned, adam
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.targets import project, softmax
from headrace.networks.critic import Critic
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, EnvironmentSpec

__all__ = ["D4PGUpdater"]

_SMALLEST = np.finfo(np.float32).tiny
_SMALLEST_PRIORITY = 1e-6  # a divergence of 0, or rounded just below it, is still sampled


class D4PGUpdater(OffPolicyUpdater):
    """Policy and critic, each in a vector with its own Adam, and their targets."""

    def __init__(self, config: D4PG, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        architecture = config.architecture(spec)
        # Without the tanh, whose input the policy's loss contains.
        linear = replace(
            architecture,
            head=replace(architecture.head, activation="none"),
            own=architecture.own and replace(architecture.own, bounded=False),
        )
        policy = PolicyNetwork(linear)
        critic = Critic(architecture, spec.actions, config.critic_hidden, config.atoms)
        self._policy_vector, self._policy = opener.learned(policy, adam(config.learning_rate))
        self._critic_vector, self._critic = opener.learned(critic, adam(config.critic_learning_rate))
        target_policy, self._target_policy = opener.target(policy, self._policy_vector)
        target_critic, self._target_critic = opener.target(critic, self._critic_vector)
        self._support = np.linspace(config.value_min, config.value_max, config.atoms, dtype=np.float32)
        super().__init__(
            architecture,
            self._policy,
            self._policy_vector,
            Learned(
                {"target_policy": target_policy, "target_critic": target_critic},
                {"policy": self._policy_vector, "critic": self._critic_vector},
            ),
            Follower((target_policy, target_critic), config.target_update_period, config.target_update_rate),
            followed=self._policy_vector,
        )

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One step of critic and policy, both from the critic before the step (Barth-Maron et al. 2018, algorithm 1).

        The priority is the divergence KL(target | critic) of each transition (Hessel et al. 2018); the loss is the
        critic's weighted cross-entropy.
        """
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        target = self._target(next_observation, reward, discount)
        probability, log_probability = softmax(self._critic.forward(observation, action))
        missed = cross_entropy(log_probability, target)
        self._critic.backward(cross_entropy_gradient(probability, target, weight))
        self._ascend(observation)
        self._critic_vector.apply()
        self._policy_vector.apply()
        divergence = missed - cross_entropy(np.log(np.maximum(target, _SMALLEST)), target)  # 0 log 0 is 0
        return Update(np.maximum(divergence, _SMALLEST_PRIORITY), float(np.dot(weight, missed)) / len(weight))

    def act(self, observation: Array) -> NDArray[np.float32]:
        """Actions [B, A] in [-1, 1] for observations [B, *input]."""
        action: NDArray[np.float32] = np.tanh(self._policy.output(self._policy.place(observation)))
        return action

    def _target(
        self, next_observation: Any, reward: NDArray[np.float32], discount: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Distribution [B, Z] of the n-step return, bootstrapped with both targets."""
        action = np.tanh(self._target_policy.output(next_observation))
        distribution = softmax(self._target_critic.output(next_observation, action))
        return project(self._support, distribution.probability, reward, discount)

    def _ascend(self, observation: Any) -> None:
        """Writes the gradient of penalty u^2 - E[Z(s, tanh(u))]; u [B, A] is the input of the policy's tanh.

        Both terms are means over the batch, the penalty also over dimensions.
        """
        u = self._policy.forward(observation)
        distribution = softmax(self._critic.forward(observation, np.tanh(u)))
        q_gradient = self._critic.differentiate(value_gradient(distribution.probability, self._support))
        self._policy.backward(policy_gradient(u, q_gradient, self._config.saturation_penalty))
