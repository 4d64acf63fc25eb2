"""DQN's gradient step."""

import warnings
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.algorithms.base import Update
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.targets import double_q_target, huber, q_target, squared, td_error
from headrace.errors import CheckpointError
from headrace.networks.architecture import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.q_network import QNetwork
from headrace.types import Array, Batch, EnvironmentSpec

__all__ = ["DQNUpdater"]

# Batches from another process lie in memory that can't be written to; nothing here writes to them.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)


class DQNUpdater:
    """Online and target network with Adam; implements `algorithms.base.Updater`."""

    def __init__(self, config: DQN, spec: EnvironmentSpec, device: torch.device, seed: int) -> None:
        self._config = config
        self._device = device
        torch.manual_seed(seed)
        architecture = Architecture.of(spec, config.network, config.hidden, config.duelling)
        self._online = QNetwork(architecture).to(device)
        self._target = QNetwork(architecture).to(device).requires_grad_(False)
        self._target.load_state_dict(self._online.state_dict())
        self._parameters = list(self._online.parameters())
        self._optimizer = torch.optim.Adam(
            self._parameters, lr=config.learning_rate, eps=config.adam_epsilon, fused=True
        )
        self._graph = PolicyGraph(architecture)
        self._loss = huber if config.loss == "huber" else squared
        self._updates = 0

    @property
    def network(self) -> QNetwork:
        """The online network."""
        return self._online

    def transfer(self, batch: Batch) -> tuple[Tensor, ...]:
        """observation, next_observation, action, reward, discount, weight on the learner's device."""
        fields = (batch.observation, batch.next_observation, batch.action, batch.reward, batch.discount, batch.weight)
        return tuple(torch.from_numpy(field).to(self._device, non_blocking=True) for field in fields)

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
            self._move_target()
        return Update(error.detach().abs().cpu().numpy(), loss.item())

    def policy(self) -> bytes:
        """The online network as an ONNX graph."""
        weights = {name: value.detach().cpu().numpy() for name, value in self._online.state_dict().items()}
        return self._graph.serialize(weights)

    @torch.inference_mode()
    def act(self, observation: Array) -> NDArray[np.float32]:
        """Q values [B, A] of observations [B, *input]."""
        q: NDArray[np.float32] = self._online(torch.from_numpy(observation).to(self._device)).cpu().numpy()
        return q

    def state(self) -> dict[str, Tensor]:
        """Networks, Adam's moments and the count of updates."""
        state = {f"online.{name}": value for name, value in self._online.state_dict().items()}
        state |= {f"target.{name}": value for name, value in self._target.state_dict().items()}
        for index, moments in self._optimizer.state_dict()["state"].items():
            state |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        state["updates"] = torch.tensor(self._updates)
        return state

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what state() gave; raises CheckpointError where names or shapes differ."""
        parts: dict[str, dict[str, Tensor]] = {"online": {}, "target": {}, "adam": {}}
        try:
            for name, value in state.items():
                if name != "updates":
                    part, rest = name.split(".", 1)
                    parts[part][rest] = value
            self._online.load_state_dict(parts["online"])
            self._target.load_state_dict(parts["target"])
            moments: dict[int, dict[str, Tensor]] = {}
            for name, value in parts["adam"].items():
                index, moment = name.split(".")
                moments.setdefault(int(index), {})[moment] = value
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
            self._updates = int(state["updates"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"the checkpoint's network does not fit these settings: {error}") from error

    def _move_target(self) -> None:
        rate = self._config.target_update_rate
        with torch.no_grad():
            for target, online in zip(self._target.parameters(), self._parameters, strict=True):
                target.lerp_(online, rate)
