"""Plays greedy episodes with a published policy, in a process of its own."""

import json
import time
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
_HEARTBEAT_SECONDS = 1.0


class Score(NamedTuple):
    """Undiscounted returns and lengths of greedy episodes, by episode number."""

    returns: list[float]
    lengths: list[int]


def play(
    environment_id: str,
    q_values: Callable[[Array], NDArray[np.float32]],
    episodes: int,
    seed: int,
    before_step: Callable[[], bool] = lambda: True,
) -> Score:
    """Plays episodes 0 .. episodes-1 of `seed` to their ends, up to 20 environments at a time.

    Every episode that is begun counts, however long it takes: counting the first that end would favour short ones.
    `before_step` is asked before each step whether to go on.
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
    while active and before_step():
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


class _Heartbeat:
    """Says about once a second that the evaluator goes on; silence means that an environment hangs."""

    def __init__(self, server: RoleServer, stop: Stop) -> None:
        self._server = server
        self._stop = stop
        self._next = 0.0

    def __call__(self) -> bool:
        """Whether the evaluator is to go on."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _HEARTBEAT_SECONDS
            self._server.put(REPORTS, json.dumps({"role": "evaluator", "index": 0}).encode())
        return not self._stop.is_set()


def run_evaluator(server: RoleServer, stop: Stop) -> None:
    """Answers evaluation requests until stopped.

    A request is JSON {environment, episodes, seed} under EVALUATION; its version is its number. The answer goes to
    REPORTS.
    """
    answered = 0
    alive = _Heartbeat(server, stop)
    while alive():
        request = server.fetch(EVALUATION, answered)
        graph = server.fetch(EVALUATION_POLICY) if request else None
        if request is None or graph is None:
            stop.wait(_POLL_SECONDS)
            continue
        answered, body = request
        wanted: dict[str, Any] = json.loads(body)
        policy = Policy(graph[1], graph[0])
        score = play(wanted["environment"], policy.q, wanted["episodes"], wanted["seed"], alive)
        if not stop.is_set():
            answer = {"role": "evaluator", "index": 0, "request": answered, **score._asdict()}
            server.put(REPORTS, json.dumps(answer).encode())
