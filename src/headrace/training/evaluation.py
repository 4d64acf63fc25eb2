"""Evaluation requests, their episodes and their results."""

import json
import statistics
from dataclasses import asdict
from typing import Any, NamedTuple

from headrace.algorithms.config import Algorithm
from headrace.clock import Outcome, new_executor
from headrace.roles.messages import EVALUATION, EVALUATION_POLICY, Answer, EvaluationRequest
from headrace.servers import RunServer
from headrace.types import EnvironmentSpec

__all__ = ["CONFIRMATION_EPISODES", "Evaluation", "Evaluations", "Moment"]

CONFIRMATION_EPISODES = 100


class Moment(NamedTuple):
    """A point in training."""

    environment_steps: int
    learner_steps: int
    seconds: float  # of the training clock

    @property
    def version(self) -> int:
        """Version of the policy."""
        return self.learner_steps + 1


class Evaluation(NamedTuple):
    """Undiscounted returns of greedy episodes, and the point in training at which the policy was taken."""

    returns: list[float]
    lengths: list[int]
    moment: Moment

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation of the returns; 0 for a single one."""
        return statistics.stdev(self.returns) if len(self.returns) > 1 else 0.0

    @property
    def minimum(self) -> float:
        """The worst return."""
        return min(self.returns)

    @property
    def maximum(self) -> float:
        """The best return."""
        return max(self.returns)

    def record(self) -> dict[str, Any]:
        """The evaluation as a record of metrics.jsonl."""
        return {
            "kind": "evaluation",
            **self.moment._asdict(),
            "version": self.moment.version,
            "episodes": len(self.returns),
            "mean_return": self.mean,
            "std_return": self.std,
            "min_return": self.minimum,
            "max_return": self.maximum,
            "mean_length": statistics.fmean(self.lengths),
        }


class _Request(NamedTuple):
    number: int
    policy: bytes
    moment: Moment
    episodes: int
    hold: bool


class Evaluations:
    """Requests to the evaluator and its answers, one at a time.

    The episodes of a request are determined by the run's seed and the moment. So no score is the best of many tries at
    the same episodes, and none depends on how often the run was resumed. `start` differs for every start of the
    learner: request numbers begin again then, and answers to an earlier start are ignored.

    A separate thread sends policies, since they may be large, so that request() does not wait. One thread makes
    requests.
    """

    def __init__(
        self,
        server: RunServer,
        start: str,
        environment: str,
        spec: EnvironmentSpec,
        algorithm: Algorithm,
        seed: int,
        target: float | None,
    ) -> None:
        self._server = server
        self._start = start
        self._environment = environment
        self._spec = spec
        self._algorithm = algorithm
        self._seed = seed
        self._target = target
        self._pending: _Request | None = None
        self._requests = 0
        self._version = 0  # of the last request on the server; used only by the executor
        self._executor = new_executor("evaluation")
        self._sending: Outcome[None] | None = None
        self.last: Evaluation | None = None
        self.best: float | None = None
        self.solved_at: Evaluation | None = None

    @property
    def pending(self) -> bool:
        """Whether an answer is pending; raises ServerError if the request could not be sent."""
        if self._sending is not None and self._sending.done():
            sent, self._sending = self._sending, None
            sent.result()
        return self._pending is not None

    @property
    def awaited_episodes(self) -> int:
        """Episodes of the pending evaluation; 0 if there is none."""
        return self._pending.episodes if self._pending else 0

    @property
    def holding(self) -> bool:
        """Whether training is paused for the pending evaluation."""
        return self._pending is not None and self._pending.hold

    def request(self, policy: bytes, moment: Moment, episodes: int, *, hold: bool) -> None:
        """Requests greedy episodes, for which training is paused if `hold`; replaces an earlier request."""
        self._send(_Request(0, policy, moment, episodes, hold))

    def repeat(self) -> None:
        """Repeats the request, after the evaluator died or the server lost the request or its answer."""
        if self._pending is not None:
            self._send(self._pending)

    def complete(self, answer: Answer, moment: Moment | None = None) -> Evaluation | None:
        """Returns the evaluation that an answer completes; None if its request was given up.

        `moment`, if given, is the best known point in training; by default it is that of the request.
        """
        request = self._pending
        if request is None or (answer["start"], answer["request"]) != (self._start, request.number):
            return None
        evaluation = Evaluation(answer["returns"], answer["lengths"], moment or request.moment)
        self._pending = None
        self.last = evaluation
        self.best = max(evaluation.mean, self.best if self.best is not None else evaluation.mean)
        if self.promising(evaluation) and len(evaluation.returns) >= CONFIRMATION_EPISODES:
            self.solved_at = self.solved_at or evaluation
        return evaluation

    def promising(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation reaches the target score; only one with 100 episodes or more is decisive."""
        return self._target is not None and evaluation.mean >= self._target

    def state(self) -> dict[str, Any]:
        """JSON-able state for a resumed run."""
        return {"last": self.last, "best": self.best}

    def restore(self, state: dict[str, Any], *, solved: bool) -> None:
        """Restores what state() returned; `solved` if the last evaluation has ended the run."""
        self.best = state["best"]
        if state["last"] is not None:
            returns, lengths, moment = state["last"]
            self.last = Evaluation(returns, lengths, Moment(*moment))
        if solved:
            self.solved_at = self.last

    def close(self) -> None:
        """Ends the thread; close the server first, since the thread may be waiting for it."""
        self._executor.shutdown(cancel_futures=True)

    def _send(self, request: _Request) -> None:
        self._requests += 1
        self._pending = request._replace(number=self._requests)
        self._sending = self._executor.submit(self._publish, self._pending)

    def _publish(self, request: _Request) -> None:
        confirms = request.episodes >= CONFIRMATION_EPISODES
        seed = self._seed + 1 + 2 * request.moment.learner_steps + confirms
        self._server.publish(EVALUATION_POLICY, request.policy)
        body: EvaluationRequest = {
            "start": self._start,
            "request": request.number,
            "environment": self._environment,
            "spec": asdict(self._spec),
            "algorithm": self._algorithm.to_record(),
            "episodes": request.episodes,
            "seed": seed,
        }
        version = self._version + 1 if self._version else 0  # a restarted server continues from this version too
        self._version = self._server.publish(EVALUATION, json.dumps(body).encode(), version)
