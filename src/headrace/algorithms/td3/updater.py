"""TD3's gradient step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Update
from headrace.algorithms.delay import Delay
from headrace.algorithms.learned import Follower, Learned, adam
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.targets import critic_gradient, critic_loss
from headrace.algorithms.td3.config import TD3
from headrace.algorithms.td3.rules import clipped_double_q_target, policy_gradient, smoothed_action
from headrace.networks.policy_network import PolicyNetwork
from headrace.networks.twin_critics import TwinCritics
from headrace.types import EnvironmentSpec

__all__ = ["TD3Updater"]


class TD3Updater(OffPolicyUpdater):
    """Twin critics and policy, each in a vector with its own Adam, and their targets.

    An update is one of the critics. The policy is part of it if its own updates are fewer than one for each
    `policy_update_period` of the critics' (`Delay`). The targets follow the critics' updates.
    """

    def __init__(self, config: TD3, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        architecture = config.architecture(spec)
        policy = PolicyNetwork(architecture)
        critics = TwinCritics(architecture, spec.actions, config.critic_hidden)
        self._random = opener.random
        self._critics_vector, self._critics = opener.learned(critics, adam(config.critic_learning_rate))
        self._policy_vector, self._policy = opener.learned(policy, adam(config.learning_rate))
        target_critics, self._target_critics = opener.target(critics, self._critics_vector)
        target_policy, self._target_policy = opener.target(policy, self._policy_vector)
        self._delay = Delay(self._critics_vector, self._policy_vector, config.policy_update_period)
        super().__init__(
            architecture,
            self._policy,
            self._policy_vector,
            Learned(
                {"target_policy": target_policy, "target_critics": target_critics},
                {"critics": self._critics_vector, "policy": self._policy_vector},
                self._random,
            ),
            Follower((target_policy, target_critics), config.target_update_period, config.target_update_rate),
            followed=self._critics_vector,
        )

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One step of the critics and, if it is due, of the policy, both from the parameters before the step.

        The priority is |TD error|, the mean of the two critics'; the loss is the sum of the critics' weighted losses.
        The importance weights apply to the critics only.
        """
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        error = self._target(next_observation, reward, discount)[:, None] - self._critics.forward(observation, action)
        self._critics.backward(critic_gradient(error, weight))
        policy_due = self._delay.due()
        if policy_due:
            self._ascend(observation)
        self._delay.apply(delayed=policy_due)
        return Update(np.abs(error).mean(1), critic_loss(error, weight))

    def _target(
        self, next_observation: Any, reward: NDArray[np.float32], discount: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Clipped double-Q targets [B] of n-step returns, with a smoothed action of the target policy."""
        action = self._target_policy.output(next_observation)
        noise = self._config.target_noise * self._random.standard_normal(action.shape, np.float32)
        smoothed = smoothed_action(action, noise, self._config.target_noise_clip)
        return clipped_double_q_target(reward, discount, self._target_critics.output(next_observation, smoothed))

    def _ascend(self, observation: Any) -> None:
        """Writes the gradient of -1/B sum Q_1(s, pi(s)) to the policy's vector."""
        q_t = self._critics.forward(observation, self._policy.forward(observation))
        first = np.zeros_like(q_t)
        first[:, 0] = 1
        self._policy.backward(policy_gradient(self._critics.differentiate(first)))
