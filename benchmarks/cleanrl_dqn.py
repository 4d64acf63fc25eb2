"""CleanRL's DQN, trained to a score: plain torch, with the network, the settings and the loop that CleanRL publishes.

CleanRL's package needs Python 3.10 or older, and its programs take no stopping rule, so this is a program of its kind.
"""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import nn

from benchmarks.outcome import Judge, Outcome, Rule
from benchmarks.torch_score import play_network
from benchmarks.zoo.published import CLEANRL
from headrace.types import Array

__all__ = ["run"]


def run(environment: str, algorithm: str, seed: int, rule: Rule) -> Outcome:
    """Trains until the rule ends the run, beyond the published steps if necessary."""
    settings = CLEANRL[algorithm][environment]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    world: Any = gymnasium.make(environment)
    learner = _Learner(world.observation_space.shape[0], int(world.action_space.n), settings, random)
    judge = Judge(rule, seed, lambda episodes, seed: play_network(learner.network, environment, episodes, seed))
    decay_steps = settings["exploration_fraction"] * settings["published_steps"]
    returns = [0.0]
    observation, _ = world.reset(seed=seed)
    step = 0
    while judge.goes_on(step, lambda: returns[:-1]):
        epsilon = max(settings["end_e"], 1 - (1 - settings["end_e"]) * step / decay_steps)
        explores = random.random() < epsilon
        action = int(random.integers(world.action_space.n)) if explores else int(learner.act(observation))
        following, reward, terminated, truncated, _ = world.step(action)
        learner.store(_Transition(observation, action, reward, following, terminated))
        returns[-1] += float(reward)
        observation = following
        if terminated or truncated:
            returns.append(0.0)
            observation, _ = world.reset()
        learner.learn(step)
        step += 1
    return judge.outcome(learner.updates, "published, one torch thread")


class _Transition(NamedTuple):
    observation: Array
    action: int
    reward: float
    next_observation: Array
    terminated: bool


class _Learner:
    """Networks, replay and optimizer."""

    def __init__(self, size: int, actions: int, settings: dict[str, Any], random: np.random.Generator) -> None:
        torch.set_num_threads(1)  # faster for these sizes
        self.updates = 0
        self._settings = settings
        self._random = random
        self.network, self._target = (
            nn.Sequential(nn.Linear(size, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, actions))
            for _ in range(2)
        )
        self._target.load_state_dict(self.network.state_dict())
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=settings["learning_rate"])
        capacity = settings["buffer_size"]
        self._stored = 0
        self._columns = (
            np.zeros((capacity, size), np.float32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, size), np.float32),
            np.zeros(capacity, np.float32),
        )

    @torch.no_grad()
    def act(self, observation: Array) -> Any:
        """The greedy action."""
        return self.network(torch.from_numpy(observation)).argmax()

    def store(self, transition: _Transition) -> None:
        """Replaces the oldest transition of a full buffer."""
        for column, value in zip(self._columns, transition, strict=True):
            column[self._stored % len(column)] = value
        self._stored += 1

    def learn(self, step: int) -> None:
        """What is due after this environment step: an update, and a copy to the target network."""
        settings = self._settings
        if step <= settings["learning_starts"]:
            return
        if step % settings["train_frequency"] == 0:
            self._update()
        if step % settings["target_network_frequency"] == 0:
            self._target.load_state_dict(self.network.state_dict())

    def _update(self) -> None:
        rows = self._random.integers(min(self._stored, len(self._columns[0])), size=self._settings["batch_size"])
        observation, action, reward, following, terminated = (torch.from_numpy(part[rows]) for part in self._columns)
        with torch.no_grad():
            target = reward + self._settings["gamma"] * (1 - terminated) * self._target(following).max(1).values
        chosen = self.network(observation).gather(1, action[:, None])[:, 0]
        loss = nn.functional.mse_loss(chosen, target)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.updates += 1
