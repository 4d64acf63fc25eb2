"""CrossQ's gradient step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._native import OptimizerOptions
from headrace.algorithms.base import Update
from headrace.algorithms.crossq.config import CrossQ
from headrace.algorithms.crossq.rules import joint_gradient, renormalization_limits, statistics_options
from headrace.algorithms.delay import Delay
from headrace.algorithms.learned import Follower, Learned
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.sac.rules import policy_gradient, sample, smaller_gradient, soft_target
from headrace.algorithms.sac.temperature import Temperature, temperature_layout
from headrace.algorithms.targets import critic_loss
from headrace.gradients.base import ParameterVector
from headrace.gradients.flat import read_vector
from headrace.networks.normalized_streams import Limits, NormalizedStreams
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["CrossQUpdater"]

_CRITICS = 2


class CrossQUpdater(OffPolicyUpdater):
    """Twin critics, policy and temperature, each in a vector with its own Adam, and the networks' running statistics.

    The statistics of critics and policy each are a vector, too: the gradient is their distance from the batch's, and
    gradient descent with the rate 1 - momentum makes them moving averages. So they are shared, saved and restored
    wherever parameters are. An update is one of the critics; the policy and the temperature are part of it if the
    policy's updates are fewer than one for each `policy_update_period` of the critics' (`Delay`).
    """

    def __init__(self, config: CrossQ, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        architecture = config.architecture(spec)
        self._description = policy = NormalizedStreams.policy(architecture)
        critics = NormalizedStreams.critics(architecture, spec.actions, config.critic_hidden, _CRITICS)
        self._random = opener.random

        def adam(rate: float) -> OptimizerOptions:
            return OptimizerOptions("adam", learning_rate=rate, beta1=config.adam_beta1)

        temperature = temperature_layout(config.initial_temperature)
        averaging = statistics_options(config.statistics_momentum)
        self._vectors: dict[str, ParameterVector] = {
            "critics": opener.vector(critics.layout, adam(config.critic_learning_rate)),
            "policy": opener.vector(policy.layout, adam(config.learning_rate)),
            "temperature": opener.vector(temperature, adam(config.temperature_learning_rate)),
            "critic_statistics": opener.vector(critics.statistics, averaging),
            "policy_statistics": opener.vector(policy.statistics, averaging),
        }
        self._delay = Delay(self._vectors["critics"], self._vectors["policy"], config.policy_update_period)
        self._normalized_policy = opener.normalized(policy, self._vectors["policy"], self._vectors["policy_statistics"])
        self._critics = opener.normalized(critics, self._vectors["critics"], self._vectors["critic_statistics"])
        self.temperature = Temperature(self._vectors["temperature"], config.target_entropy, spec.actions)
        super().__init__(
            architecture,
            self._normalized_policy,
            self._vectors["policy"],
            Learned({}, self._vectors, self._random),
            Follower((), config.target_update_period, config.target_update_rate),
            followed=self._vectors["critics"],
        )

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        """Observations and next observations [2B, *input], placed for the networks; the others as they are."""
        joint = np.concatenate((batch.observation, batch.next_observation))
        return self._policy.place(joint), batch.action, batch.reward, batch.discount, batch.weight

    def weights(self) -> dict[str, Array]:
        """The parameters of the policy as actors compute it: with its normalization folded into the dense layers."""
        self.pull()
        vectors = self._vectors["policy"], self._vectors["policy_statistics"]
        return dict(self._description.fold(*(read_vector(vector.parameters) for vector in vectors)))

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One step of the critics and, if it is due, of policy and temperature, from the parameters before the step.

        The priority is |TD error|, the mean of the two critics'; the loss is the sum of the critics' weighted losses.
        The importance weights apply to the critics only.
        """
        self.pull()
        joint, action, reward, discount, weight = fields
        count = len(action)
        noise, next_noise = self._random.standard_normal((2, *action.shape), np.float32)
        next_action, log_probability, _ = sample(self._policy.output(joint[count:]), next_noise)
        limits = self._limits("critic_statistics")
        q = self._critics.forward_batch(limits, joint, np.concatenate((action, next_action)))
        target = soft_target(reward, discount, q[count:], log_probability, self.temperature.value)
        error = target[:, None] - q[:count]  # [B, 2]
        self._critics.backward(joint_gradient(error, weight))
        policy_due = self._delay.due()
        if policy_due:
            self._descend(joint[:count], noise)
        self._delay.apply(delayed=policy_due)
        for name in ("critic_statistics", *(("temperature", "policy_statistics") if policy_due else ())):
            self._vectors[name].apply()
        return Update(np.abs(error).mean(1), critic_loss(error, weight))

    def _limits(self, statistics: str) -> Limits:
        vector = self._vectors[statistics]
        return renormalization_limits(vector.version // vector.parameter_sets, self._config.renormalization_starts)

    def _descend(self, observation: Any, noise: NDArray[np.float32]) -> None:
        """Writes the gradients of policy and temperature: of the mean of alpha log pi(a | s) - min_i Q_i(s, a).

        The policy is normalized by the batch, the critics by their running statistics.
        """
        output = self._normalized_policy.forward_batch(self._limits("policy_statistics"), observation)
        sampled = sample(output, noise)
        q_t = self._critics.forward(observation, sampled.action)
        slope = self._critics.differentiate(smaller_gradient(q_t))
        self._policy.backward(policy_gradient(output, sampled, slope, self.temperature.value))
        self.temperature.descend(sampled.log_probability)
