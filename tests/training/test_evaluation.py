"""Requests to the evaluator, sent while the learner works, and which answers count."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.errors import ServerError
from headrace.roles.messages import EVALUATION, EVALUATION_POLICY
from headrace.servers import RunServer
from headrace.training.evaluation import Evaluation, Evaluations, Moment
from headrace.types import EnvironmentSpec

from ..waiting import wait_for

MOMENT = Moment(100, 20, 3.0)
SPEC = EnvironmentSpec((4,), "float32", 2)


class Far(RunServer):
    """A server on which every publication blocks until `arrived` is set."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.published: list[tuple[str, bytes, int]] = []
        self.error: Exception | None = None

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        assert self.arrived.wait(30)
        if self.error:
            raise self.error
        self.published.append((name, bytes(data), version))
        return version or 41


@pytest.fixture
def server() -> Far:
    return Far()


def make_evaluations(server: Far) -> Evaluations:
    return Evaluations(server, "start", "CartPole-v1", SPEC, DQN(), 7, target=None)


@pytest.fixture
def evaluations(server: Far) -> Iterator[Evaluations]:
    made = make_evaluations(server)
    yield made
    server.arrived.set()
    made.close()


def requests(server: Far, count: int) -> list[tuple[bytes, dict[str, Any], int]]:
    """Policy, request and its version, of all that were sent."""
    wait_for(lambda: len(server.published) >= 2 * count)
    sent = server.published
    assert [name for name, _, _ in sent] == [EVALUATION_POLICY, EVALUATION] * count
    return [(policy[1], json.loads(asked[1]), asked[2]) for policy, asked in zip(sent[::2], sent[1::2], strict=True)]


def answer(request: dict[str, Any], score: float) -> dict[str, Any]:
    return {**{name: request[name] for name in ("start", "request")}, "returns": [score] * 2, "lengths": [1, 1]}


def test_the_learner_does_not_wait_until_a_policy_has_arrived(server: Far, evaluations: Evaluations) -> None:
    evaluations.request(b"graph", MOMENT, 2, hold=False)
    assert evaluations.pending
    assert not server.published
    server.arrived.set()
    [(policy, asked, version)] = requests(server, 1)
    assert (policy, version) == (b"graph", 0)  # the server's next
    spec = {"observation_shape": [4], "observation_dtype": "float32", "actions": 2, "stack": 1, "continuous": False}
    spec |= {"parts": [], "masked": False, "branches": []}
    named = {"start": "start", "request": 1, "environment": "CartPole-v1", "spec": spec}
    assert asked == {**named, "algorithm": DQN().to_record(), "episodes": 2, "seed": 7 + 1 + 40}
    evaluation = evaluations.complete(answer(asked, 5.0))
    assert evaluation is not None
    assert (evaluation.mean, evaluation.moment) == (5.0, MOMENT)
    assert not evaluations.pending


def test_an_answer_may_carry_a_more_exact_moment(server: Far, evaluations: Evaluations) -> None:
    server.arrived.set()
    evaluations.request(b"graph", MOMENT, 2, hold=False)
    [(_, asked, _)] = requests(server, 1)
    evaluation = evaluations.complete(answer(asked, 5.0), MOMENT._replace(environment_steps=120))
    assert evaluation is not None
    assert evaluation.moment == (120, 20, 3.0)


def test_only_the_newest_request_of_this_start_is_answered(server: Far, evaluations: Evaluations) -> None:
    evaluations.request(b"first", MOMENT, 2, hold=False)
    evaluations.request(b"second", MOMENT, 2, hold=False)
    evaluations.repeat()
    server.arrived.set()
    sent = requests(server, 3)
    assert [policy for policy, _, _ in sent] == [b"first", b"second", b"second"]
    assert [version for _, _, version in sent] == [0, 42, 43]  # rising, also on a restarted server
    first, second, third = (asked for _, asked, _ in sent)
    assert evaluations.complete(answer(first, 1.0)) is None
    assert evaluations.complete(answer(second, 2.0)) is None
    assert evaluations.complete({**answer(third, 3.0), "start": "another"}) is None
    assert evaluations.pending
    assert evaluations.complete(answer(third, 4.0)) is not None


def test_a_confirmation_plays_other_episodes_than_an_evaluation_at_the_same_moment(
    server: Far, evaluations: Evaluations
) -> None:
    server.arrived.set()
    evaluations.request(b"graph", MOMENT, 2, hold=False)
    evaluations.request(b"graph", MOMENT, 100, hold=False)
    assert [asked["seed"] for _, asked, _ in requests(server, 2)] == [7 + 1 + 2 * 20, 7 + 1 + 2 * 20 + 1]


def test_the_deviation_is_that_of_a_sample() -> None:
    """The squared differences from 2.5 sum to 5, which is divided by one less than the number of returns."""
    assert Evaluation([1.0, 2.0, 3.0, 4.0], [1] * 4, MOMENT).std == pytest.approx((5 / 3) ** 0.5)
    assert Evaluation([1.0], [1], MOMENT).std == 0.0


def test_the_best_score_is_kept_after_a_lower_one_and_in_a_resumed_run(server: Far, evaluations: Evaluations) -> None:
    for number, score in ((1, 5.0), (2, 3.0)):
        evaluations.request(b"graph", MOMENT, 2, hold=False)
        assert evaluations.complete(answer({"start": "start", "request": number}, score)) is not None
    assert evaluations.best == 5.0
    with contextlib.closing(make_evaluations(server)) as resumed:
        resumed.restore(json.loads(json.dumps(evaluations.state())), solved=False)
        assert resumed.best == 5.0
        assert resumed.last == evaluations.last == ([3.0, 3.0], [1, 1], MOMENT)
        assert resumed.solved_at is None
        resumed.restore(evaluations.state(), solved=True)
        assert resumed.solved_at == resumed.last


def test_a_request_that_could_not_be_sent_raises(server: Far, evaluations: Evaluations) -> None:
    server.error = ServerError("no room")
    server.arrived.set()
    evaluations.request(b"graph", MOMENT, 2, hold=False)

    def ask() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            assert evaluations.pending
            time.sleep(0.001)

    with pytest.raises(ServerError, match="no room"):
        ask()
    server.error = None
    evaluations.repeat()
    [(policy, _, _)] = requests(server, 1)
    assert policy == b"graph"


def test_close_drops_requests_that_were_not_started(server: Far, evaluations: Evaluations) -> None:
    with contextlib.closing(evaluations):
        evaluations.request(b"first", MOMENT, 2, hold=False)
        evaluations.request(b"second", MOMENT, 2, hold=False)
        sending: Any = evaluations._sending
        sending.add_done_callback(lambda _: server.arrived.set())  # the second is canceled, then the first may end
    assert [data for name, data, _ in server.published if name == EVALUATION_POLICY] == [b"first"]
