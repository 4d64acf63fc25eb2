"""D4PG's gradient step."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.algorithms.base import Update
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.modules import Learned, copy_weights, move_target, to_device
from headrace.algorithms.targets import project
from headrace.errors import ConfigError
from headrace.gradients.base import OpenVector
from headrace.networks.critic import Critic
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["D4PGUpdater"]

_SMALLEST_PRIORITY = 1e-6  # a divergence of 0, or rounded just below it, is still sampled


class D4PGUpdater:
    """Policy, critic and their targets, with one Adam each for policy and critic; implements `algorithms.base.Updater`.

    Raises ConfigError if actions are discrete or observations need a CNN.
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
        if open_vector is not None:
            raise ConfigError("algorithm is d4pg, whose workers can't share parameters: dqn or a3c is required")
        self._config = config
        self._device = device
        torch.manual_seed(seed)
        self.architecture = config.architecture(spec)
        self._policy, self._target_policy = (PolicyNetwork(self.architecture).to(device) for _ in range(2))
        self._critic, self._target_critic = (
            Critic(self.architecture, spec.actions, config.critic_hidden, config.atoms).to(device) for _ in range(2)
        )
        for target, online in self._targets:
            target.requires_grad_(False).load_state_dict(online.state_dict())
        self._policy_adam = torch.optim.Adam(self._policy.parameters(), lr=config.learning_rate, fused=True)
        self._critic_adam = torch.optim.Adam(self._critic.parameters(), lr=config.critic_learning_rate, fused=True)
        self._support = torch.linspace(config.value_min, config.value_max, config.atoms, device=device)
        self._learned = Learned(
            {
                "policy": self._policy,
                "critic": self._critic,
                "target_policy": self._target_policy,
                "target_critic": self._target_critic,
            },
            {"policy_adam": self._policy_adam, "critic_adam": self._critic_adam},
        )
        self._updates = 0

    @property
    def version(self) -> int:
        """Number of updates of the policy."""
        return self._updates

    def pull(self) -> int:
        """Returns the version: there is nothing to update."""
        return self._updates

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        return to_device(batch, self._device)

    def update(self, tensors: tuple[Tensor, ...]) -> Update:
        """One step of critic and policy, both from the critic before the step (Barth-Maron et al. 2018, algorithm 1).

        The priority is the divergence KL(target | critic) of each transition (Hessel et al. 2018); the loss is the
        critic's weighted cross-entropy.
        """
        observation, next_observation, action, reward, discount, weight = tensors
        target = self._target(next_observation, reward, discount)
        logits = self._critic(observation, action)
        cross_entropy = torch.nn.functional.cross_entropy(logits, target, reduction="none")
        loss = (weight * cross_entropy).mean()
        self._critic_adam.zero_grad()
        self._policy_adam.zero_grad()
        torch.autograd.backward(loss)
        self._ascend(observation)
        self._critic_adam.step()
        self._policy_adam.step()
        self._updates += 1
        if self._updates % self._config.target_update_period == 0:
            for slow, fast in self._targets:
                move_target(slow, fast, self._config.target_update_rate)
        divergence = cross_entropy.detach() + torch.xlogy(target, target).sum(1)
        return Update(divergence.clamp_(min=_SMALLEST_PRIORITY).cpu().numpy(), loss.item())

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        return copy_weights(self._policy)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Actions [B, A] in [-1, 1] for observations [B, *input]."""
        action: NDArray[np.float32] = self._policy(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return action

    def state(self) -> dict[str, Tensor]:
        """Networks, moments of both Adams and the number of updates."""
        return self._learned.state(self._updates)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._updates = self._learned.load(state)

    @property
    def _targets(self) -> tuple[tuple[torch.nn.Module, torch.nn.Module], ...]:
        return (self._target_policy, self._policy), (self._target_critic, self._critic)

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
