"""Plays greedy episodes with a published policy, in a separate process."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from headrace.algorithms.config import Algorithm
from headrace.clock import monotonic, spend
from headrace.environments import FrameStack, make_batch, require_spec
from headrace.fields import read_fields
from headrace.parameters import Policy
from headrace.parameters.memory import Memory
from headrace.roles.base import Role, RoleContext
from headrace.roles.clock import PhaseClock
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import EVALUATION, EVALUATION_POLICY, Answer, EvaluationRequest
from headrace.types import Array, EnvironmentSpec

__all__ = ["EVALUATION_STREAM", "LONGEST_EPISODE", "EvaluatorRole", "GreedyPolicy", "Score", "play"]

EVALUATION_STREAM = 2**31
"""Number of the first evaluation environment, far above any actor's, so that their episode seeds never coincide."""
LONGEST_EPISODE = 27_000
"""Maximum steps of an evaluation episode: Atari's 108,000 frames, and a bound for environments without a limit."""
_TOGETHER = 20
_POLL_SECONDS = 0.02
_AGAIN_SECONDS = 5.0
"""Until an answer is sent a second time; each further pause is twice as long."""


class Score(NamedTuple):
    """Undiscounted returns and lengths of greedy episodes."""

    returns: list[float]
    lengths: list[int]


def play(
    environment_id: str,
    act: Callable[[Array], Array],
    episodes: int,
    seed: int,
    beat: Callable[[], object] = lambda: None,
    spec: EnvironmentSpec | None = None,
    reset: Callable[[Array], object] = lambda ended: None,
) -> Score:
    """Plays greedy episodes in up to 20 environments at a time; calls `beat` before every step of each.

    `act` maps observations [B, *input] to actions: [B], [B, D] if they have D dimensions, or continuous [B, A].
    Raises EnvironmentFault if `spec`, the policy's, is given and the environment does not match it. `reset` is called
    after each step with the environments [B] that began an episode.

    The episodes that count are fixed in advance, an equal number per environment: counting the first ones to end would
    favor short episodes. An episode is cut at LONGEST_EPISODE and counts with its return so far.
    """
    count = min(_TOGETHER, episodes)
    wanted = [episodes // count + (index < episodes % count) for index in range(count)]
    environments = make_batch(
        environment_id,
        count,
        seed=seed,
        first_index=EVALUATION_STREAM,
        longest_episode=LONGEST_EPISODE,
        beat=beat,
    )
    score = Score([], [])
    try:
        if spec is not None:
            require_spec(environment_id, environments.spec, spec)
        stack = FrameStack(count, environments.spec)
        inputs = stack.start(environments.start())
        while any(wanted):
            step = environments.step(act(inputs))
            inputs = stack.push(step.next_start, step.began)
            reset(step.began)
            for episode in environments.take_episodes():
                index = episode.environment - EVALUATION_STREAM
                if wanted[index]:
                    wanted[index] -= 1
                    score.returns.append(episode.return_)
                    score.lengths.append(episode.length)
    finally:
        environments.close()
    return score


class GreedyPolicy:
    """A policy's actions without exploration, in the environments of its first observations. One thread."""

    def __init__(self, algorithm: Algorithm, policy: Policy, spec: EnvironmentSpec) -> None:
        self._algorithm = algorithm
        self._spec = spec
        self._memory = Memory(policy.advance, policy.state_size)
        self.recurrent = policy.state_size > 0
        """Whether the policy remembers earlier observations."""

    def restart(self) -> None:
        """Forgets all environments; the next observations may be of another number of them."""
        self._memory.start(0)

    def act(self, observation: Array) -> Array:
        """Actions [B], [B, D] or continuous [B, A] for observations [B, *input]; a recurrent policy advances."""
        return self._algorithm.greedy(self._memory.output(observation), self._spec)

    def reset(self, ended: Array) -> None:
        """Begins new episodes where `ended` [B]."""
        self._memory.reset(ended)


@dataclass(frozen=True)
class EvaluatorRole(Role):
    """Answers evaluation requests; reports each answer again and again until the next request."""

    kind: ClassVar[str] = "evaluator"

    def run(self, context: RoleContext) -> None:
        """Answers until stopped; ends with ClosedError when stopped or when the server is gone."""
        server, stop, answered = context.connect(), context.stop, 0
        alive = Heartbeat(self, server, stop)
        answer: Answer | None = None
        again, pause = 0.0, _AGAIN_SECONDS
        while True:
            alive()
            if answer and monotonic() >= again:  # a mailbox that is full drops its oldest messages
                alive.send(server, {"answer": answer})
                again, pause = monotonic() + pause, 2 * pause
            request = server.fetch(EVALUATION, answered)
            graph = server.fetch(EVALUATION_POLICY) if request else None
            if request is None or graph is None:
                stop.wait(_POLL_SECONDS)
                continue
            answered, body = request
            wanted: EvaluationRequest = json.loads(body)
            policy = Policy(graph[1], graph[0])
            spend("session")
            spec = read_fields(EnvironmentSpec, wanted["spec"])
            alive.enter("environment")
            greedy = GreedyPolicy(Algorithm.from_record(wanted["algorithm"]), policy, spec)
            clock = PhaseClock(("inference", "environment"), min(_TOGETHER, wanted["episodes"]))
            act = functools.partial(_act, clock, greedy)
            score = play(wanted["environment"], act, wanted["episodes"], wanted["seed"], alive, spec, greedy.reset)
            alive.enter("")
            answer = {
                "start": wanted["start"],
                "request": wanted["request"],
                "returns": score.returns,
                "lengths": score.lengths,
            }
            again, pause = 0.0, _AGAIN_SECONDS


def _act(clock: PhaseClock, greedy: GreedyPolicy, observation: Array) -> Array:
    """Greedy actions; the clock is in the phase "environment" between two calls."""
    clock.enter("inference")
    action = greedy.act(observation)
    clock.enter("environment", "evaluation")
    return action
