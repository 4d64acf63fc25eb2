"""Plays greedy episodes with a published policy, in a process of its own."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.environments import episode_seed, make
from headrace.environments.spaces import read_spaces
from headrace.environments.stack import FrameStack
from headrace.parameters import Policy
from headrace.roles.base import EVALUATION, EVALUATION_POLICY, REPORTS, RoleServer, Stop
from headrace.types import Array

__all__ = ["EVALUATION_STREAM", "Score", "play", "run_evaluator"]

EVALUATION_STREAM = 2**32 - 1
"""Stands where an environment's number would in the seeds of evaluation episodes, so that no actor shares them."""
_TOGETHER = 20
_POLL_SECONDS = 0.02


class Score(NamedTuple):
    """Undiscounted returns and lengths of greedy episodes, by episode number."""

    returns: list[float]
    lengths: list[int]


def play(
    environment_id: str,
    q_values: Callable[[Array], NDArray[np.float32]],
    episodes: int,
    seed: int,
    stop: Stop | None = None,
) -> Score:
    """Plays episodes 0 .. episodes-1 of `seed` to their ends, up to 20 environments at a time.

    Every episode that is begun counts, however long it takes: counting the first that end would favour short ones.
    """
    count = min(_TOGETHER, episodes)
    environments = [make(environment_id) for _ in range(count)]
    spec, first_action = read_spaces(environments[0], environment_id)
    frames = np.empty((count, *spec.observation_shape), spec.observation_dtype)
    stack = FrameStack(count, spec)
    score = Score([0.0] * episodes, [0] * episodes)
    current = list(range(count))  # the episode that each environment plays
    begun = count
    for index, environment in enumerate(environments):
        frames[index] = environment.reset(seed=episode_seed(seed, EVALUATION_STREAM, index))[0]
    inputs = stack.start(frames)
    active = list(range(count))
    while active and not (stop and stop.is_set()):
        actions = q_values(np.ascontiguousarray(inputs[active])).argmax(1)
        ended = np.zeros(count, np.bool_)
        frames = frames.copy()
        for index, action in zip(list(active), actions.tolist(), strict=True):
            observation, reward, terminated, truncated, _ = environments[index].step(action + first_action)
            frames[index] = observation
            score.returns[current[index]] += float(reward)
            score.lengths[current[index]] += 1
            if terminated or truncated:
                if begun == episodes:
                    active.remove(index)
                    continue
                current[index] = begun
                frames[index] = environments[index].reset(seed=episode_seed(seed, EVALUATION_STREAM, begun))[0]
                ended[index] = True
                begun += 1
        inputs = stack.push(frames, ended)
    for environment in environments:
        environment.close()
    return score


def run_evaluator(server: RoleServer, stop: Stop) -> None:
    """Answers evaluation requests until stopped.

    A request is JSON {environment, episodes, seed} under EVALUATION; its version is its number. The answer goes to
    REPORTS.
    """
    answered = 0
    while not stop.is_set():
        request = server.fetch(EVALUATION, answered)
        if request is None:
            stop.wait(_POLL_SECONDS)
            continue
        answered, body = request
        wanted: dict[str, Any] = json.loads(body)
        graph = server.fetch(EVALUATION_POLICY)
        if graph is None:
            continue
        policy = Policy(graph[1], graph[0])
        score = play(wanted["environment"], policy.q, wanted["episodes"], wanted["seed"], stop)
        if not stop.is_set():
            answer = {"role": "evaluator", "request": answered, "returns": score.returns, "lengths": score.lengths}
            server.put(REPORTS, json.dumps(answer).encode())
