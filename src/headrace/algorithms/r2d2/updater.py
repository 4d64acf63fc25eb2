"""R2D2's gradient step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.base import Update
from headrace.algorithms.learned import Follower, Learned, Target, optimizer_options
from headrace.algorithms.off_policy import OffPolicyUpdater
from headrace.algorithms.opener import NetworkOpener
from headrace.algorithms.r2d2.config import R2D2
from headrace.algorithms.r2d2.rules import n_step_returns, rescale, unscale, window_priority
from headrace.algorithms.targets import double_q_target, huber, q_gradient, q_target, squared, td_error
from headrace.gradients.flat import clip_norm
from headrace.networks.policy_network import PolicyNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["R2D2Updater"]


class R2D2Updater(OffPolicyUpdater):
    """The recurrent Q network, the vector of its parameters, and its target network."""

    def __init__(self, config: R2D2, spec: EnvironmentSpec, opener: NetworkOpener) -> None:
        self._config = config
        self._form = config.window_form(spec)
        architecture = config.architecture(spec)
        network = PolicyNetwork(architecture)
        from headrace.networks.torch_network import RecurrentNetwork

        vector = opener.vector(network.layout, optimizer_options(config))
        target = Target.of(network.layout, vector.parameters)
        self._online = RecurrentNetwork(network, vector.parameters, vector.gradient)
        self._target = RecurrentNetwork(network, target.vector)
        self._loss = huber if config.loss == "huber" else squared
        super().__init__(
            architecture,
            self._online,
            vector,
            Learned({"target": target}, {"vector": vector}),
            Follower((target,), config.target_update_period, config.target_update_rate),
            followed=vector,
        )

    def advance(
        self, observation: Array, state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Q values [B, A] and next states [B, S] for observations [B, *input] and states [B, S]."""
        return self._online.advance(observation, state)

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        """The windows, with the observations placed for the networks: those of the burn-in, and those after it."""
        windows = self._form.unpack(np.ascontiguousarray(batch.action))
        rows = np.arange(len(windows.steps))[:, None]
        after = windows.burn_in[:, None] + np.arange(self._form.learned + self._form.n_step)
        burned = self._online.place(windows.observation[:, : self._form.burn_in].copy())
        observation = self._online.place(windows.observation[rows, after])
        action = windows.action[rows, after[:, : self._form.learned]]
        reward = windows.reward[rows, after[:, :-1]]
        steps = windows.steps - windows.burn_in
        return (
            burned,
            windows.burn_in,
            windows.state,
            observation,
            action,
            reward,
            steps,
            windows.terminated,
            batch.weight,
        )

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks the loss
    def update(self, fields: tuple[Any, ...]) -> Update:
        """One gradient step on the weighted loss of the TD errors of all learned steps."""
        self.pull()
        burned, burn_in, state, observation, action, reward, steps, terminated, weight = fields
        config, learned = self._config, self._form.learned
        returns = n_step_returns(reward, steps, terminated, self._form.n_step, config.discount)
        q_target_all = self._target.unroll(burned, burn_in, state, observation)
        q_all = self._online.forward_windows(burned, burn_in, state, observation)
        rows = np.arange(len(steps))[:, None]
        flat = (-1, q_all.shape[2])
        q_tpn = q_target_all[rows, returns.bootstrap].reshape(flat)
        scaled = config.value_rescaling
        values = unscale(q_tpn) if scaled else q_tpn
        r, d = returns.reward.ravel(), returns.discount.ravel()
        target = (
            double_q_target(r, d, values, q_all[rows, returns.bootstrap].reshape(flat))
            if config.double
            else q_target(r, d, values)
        )
        q_t, a_t = q_all[:, :learned].reshape(flat), action.ravel()
        counted = returns.learned.ravel()
        error = np.where(counted, td_error(q_t, a_t, rescale(target) if scaled else target), 0).astype(np.float32)
        loss = self._loss(error)
        share = (weight[:, None] * returns.learned).astype(np.float32).ravel()
        gradient = np.zeros_like(q_all)
        gradient[:, :learned] = q_gradient(q_t, a_t, loss.slope, share).reshape(gradient[:, :learned].shape)
        self._online.backward(gradient)
        clip_norm(self._policy_vector.gradient, config.max_gradient_norm)
        self._policy_vector.apply()
        priority = window_priority(error.reshape(returns.learned.shape), returns.learned, config.priority_mix)
        return Update(priority, float(np.dot(share, loss.value)) / len(share))
