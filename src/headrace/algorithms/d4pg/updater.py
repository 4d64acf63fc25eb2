"""D4PG's gradient step."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace._native import OptimizerOptions
from headrace.algorithms.base import Update
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.flat import flatten, local_vectors, open_module
from headrace.algorithms.modules import Follower, Learned, copy_weights, to_device
from headrace.algorithms.targets import project
from headrace.gradients.base import OpenVector
from headrace.networks.critic import Critic
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["D4PGUpdater"]

_SMALLEST_PRIORITY = 1e-6  # a divergence of 0, or rounded just below it, is still sampled


class D4PGUpdater:
    """Policy and critic, each in a vector with its own Adam, and their targets; implements `algorithms.base.Updater`.

    See `Algorithm.make_updater()` for the arguments. Raises ConfigError also if observations need a CNN.
    """

    def __init__(
        self,
        config: D4PG,
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
        self._policy, self._target_policy = (PolicyNetwork(self.architecture).to(device) for _ in range(2))
        self._critic, self._target_critic = (
            Critic(self.architecture, spec.actions, config.critic_hidden, config.atoms).to(device) for _ in range(2)
        )
        open_vector = open_vector or local_vectors(device)
        rates = (config.learning_rate, config.critic_learning_rate)
        policy_adam, critic_adam = (OptimizerOptions("adam", learning_rate=rate) for rate in rates)
        self._policy_vector = open_module(open_vector, self._policy, policy_adam)
        self._critic_vector = open_module(open_vector, self._critic, critic_adam)
        self._target_policy.load_state_dict(self._policy.state_dict())
        self._target_critic.load_state_dict(self._critic.state_dict())
        pairs = (
            (flatten(self._target_policy), self._policy_vector.parameters),
            (flatten(self._target_critic), self._critic_vector.parameters),
        )
        self._follower = Follower(pairs, config.target_update_period, config.target_update_rate)
        self._followed = self._policy_vector.version
        self._support = torch.linspace(config.value_min, config.value_max, config.atoms, device=device)
        self._learned = Learned(
            {"target_policy": self._target_policy, "target_critic": self._target_critic},
            {"policy": self._policy_vector, "critic": self._critic_vector},
        )

    @property
    def policy(self) -> PolicyNetwork:
        """The online policy."""
        return self._policy

    @property
    def critic(self) -> Critic:
        """The online critic."""
        return self._critic

    @property
    def version(self) -> int:
        """Number of updates of the policy."""
        return self._policy_vector.version

    def pull(self) -> int:
        """Updates policy and critic; moves the targets as often as was due since the last call."""
        version = self._policy_vector.pull()
        self._critic_vector.pull()
        self._follower.follow(self._followed, version)
        self._followed = version
        return version

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        return to_device(batch, self._device)

    def update(self, fields: tuple[Tensor, ...]) -> Update:
        """One step of critic and policy, both from the critic before the step (Barth-Maron et al. 2018, algorithm 1).

        The priority is the divergence KL(target | critic) of each transition (Hessel et al. 2018); the loss is the
        critic's weighted cross-entropy.
        """
        self.pull()
        observation, next_observation, action, reward, discount, weight = fields
        target = self._target(next_observation, reward, discount)
        logits = self._critic(observation, action)
        cross_entropy = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        loss = (weight * cross_entropy).mean()
        self._critic_vector.gradient.zero_()
        self._policy_vector.gradient.zero_()
        torch.autograd.backward(loss)
        self._ascend(observation)
        self._critic_vector.apply()
        self._policy_vector.apply()
        divergence = cross_entropy.detach() + torch.xlogy(target, target).sum(1)
        return Update(divergence.clamp_(min=_SMALLEST_PRIORITY).cpu().numpy(), loss.item())

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        self.pull()
        return copy_weights(self._policy)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Actions [B, A] in [-1, 1] for observations [B, *input]."""
        action: NDArray[np.float32] = self._policy(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return action

    def state(self) -> dict[str, Tensor]:
        """Target networks, the vectors with their optimizer moments, and the number of updates."""
        self.pull()
        return self._learned.state(self._followed)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._followed = self._learned.load(state)

    @torch.no_grad()
    def _target(self, next_observation: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Distribution [B, Z] of the n-step return, bootstrapped with both targets."""
        logits = self._target_critic(next_observation, self._target_policy(next_observation))
        return project(self._support, logits.softmax(1), reward, discount)

    def _ascend(self, observation: Tensor) -> None:
        """Adds the gradient of -E[Z(s, policy(s))] + penalty * u^2 to the policy's; u [B, A] is the input of its tanh.

        Both terms are means over the batch, the penalty also over dimensions. The graph is cut at the action, so that
        no gradient of the critic's parameters is computed.
        """
        inputs: list[Tensor] = []
        with self._policy.get_submodule("action").register_forward_hook(lambda *call: inputs.append(call[-1])):
            action = self._policy(observation)
        leaf = action.detach().requires_grad_()
        value = self._critic(observation, leaf).softmax(1) @ self._support  # [B]
        (dq_da,) = torch.autograd.grad(value.sum(), leaf)
        ascent = (dq_da * action).sum(1).mean()
        torch.autograd.backward(self._config.saturation_penalty * inputs[0].square().mean() - ascent)
