"""Rolls out a world model from real states with a policy, and writes chunks of experience."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace._native import ChunkWriter, Signature
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.algorithms.dyna_q.rules import disagreement
from headrace.algorithms.exploration import EpsilonGreedy
from headrace.networks.world_model import WorldModel
from headrace.types import Array

__all__ = ["Rollouts", "simulate", "write_chunks"]


class Rollouts(NamedTuple):
    """R simulations of up to H steps, of which the first `length` count."""

    observation: Array  # [H+1, R, O]
    action: NDArray[np.int64]  # [H, R]
    reward: NDArray[np.float32]  # [H, R]
    length: NDArray[np.int64]  # [R]: steps until termination, disagreement or the end
    terminated: NDArray[np.bool_]  # [R]: whether the last step terminated
    dropped: int
    """Number of simulations that ended because the members disagreed; `length` excludes that step."""


def simulate(
    model: WorldModel,
    start: Array,
    output: Callable[[Array], NDArray[np.float32]],
    exploration: EpsilonGreedy,
    steps: int,
    disagreement_limit: float,
) -> Rollouts:
    """Simulates up to `steps` steps from real states [R, O]; `output` gives Q values [R, A] of states.

    Each step is the prediction of a random member (Chua et al. 2018, TS1). If the members' disagreement exceeds the
    limit, the step is dropped and the simulation ends before it.
    """
    count, rows = len(start), np.arange(len(start))
    observation, actions, rewards = [start], [], []
    length = np.zeros(count, np.int64)
    terminated = np.zeros(count, np.bool_)
    going = np.ones(count, np.bool_)
    dropped = 0
    for _ in range(steps):
        action: NDArray[np.int64] = exploration.choose(output(observation[-1]))
        prediction = model.predict(observation[-1].astype(np.float32, copy=False), action)
        believed = disagreement(prediction, model.targets.deviation) <= disagreement_limit
        dropped += int((going & ~believed).sum())
        going &= believed
        member = exploration.random.integers(model.members, size=count)
        length += going
        terminated |= going & (prediction.done[member, rows] > 0)
        going &= ~terminated
        observation.append((observation[-1] + prediction.change[member, rows]).astype(start.dtype))
        actions.append(action)
        rewards.append(prediction.reward[member, rows])
    return Rollouts(np.stack(observation), np.stack(actions), np.stack(rewards), length, terminated, dropped)


def write_chunks(rollouts: Rollouts, signature: Signature, config: DynaQ, version: int, actor: int) -> list[bytes]:
    """Chunks of n-step transitions, one per simulation with at least one step, stamped with the model's `version`.

    A simulation that did not terminate bootstraps from its last state, as a truncated episode does.
    """
    writer = ChunkWriter(
        signature, n_step=config.n_step, discount=config.discount, chunk_steps=config.rollout_steps, actor=actor
    )
    writer.set_policy_version(version)
    action, reward, length = rollouts.action.tolist(), rollouts.reward.tolist(), rollouts.length.tolist()
    for index in np.flatnonzero(rollouts.length).tolist():
        observation, last = rollouts.observation[:, index], length[index] - 1
        writer.start(np.ascontiguousarray(observation[0]))
        for t in range(last + 1):
            over = t == last
            terminated = over and bool(rollouts.terminated[index])
            following = np.ascontiguousarray(observation[t + 1])
            writer.append(action[t][index], reward[t][index], following, terminated, over and not terminated)
    return writer.take()
