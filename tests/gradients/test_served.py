"""Parameters in a server's shards, against those of this process and against sums worked out by hand."""

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from headrace._native import OptimizerOptions, Server
from headrace.algorithms.delay import Delay
from headrace.clock import World, inhabit
from headrace.errors import CheckpointError, ConfigError, ServerError
from headrace.gradients.handles import ServedHandle
from headrace.gradients.local import LocalVector
from headrace.gradients.served import ServedOptions, ServedVector
from headrace.servers import Endpoint

TOKEN = b"sixteen or more bytes"
DESCENT = OptimizerOptions("sgd", learning_rate=0.5)
Open = Callable[..., ServedVector]


@pytest.fixture(params=["unix:@", "tcp://127.0.0.1:0"], ids=["unix", "tcp"])
def endpoint(request: pytest.FixtureRequest, tmp_path) -> Iterator[Endpoint]:
    token_file = tmp_path / "token"
    token_file.write_bytes(TOKEN)
    token_file.chmod(0o600)
    server = Server(token=TOKEN)
    yield Endpoint(server.listen(request.param), "run", str(token_file))
    server.close()


@pytest.fixture
def open_vector(endpoint: Endpoint) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def open_(
            initial, options: ServedOptions | None = None, fresh: bool = False, optimizer: OptimizerOptions = DESCENT
        ) -> ServedVector:
            values = np.asarray(initial, np.float32)
            vector = ServedVector(values, optimizer, endpoint, "model", options or ServedOptions(), fresh=fresh)
            return stack.enter_context(contextlib.closing(vector))

        yield open_


def push(vector: ServedVector, gradient: float) -> tuple[int, int, bool]:
    vector.gradient[:] = gradient
    return tuple(vector.apply())


@pytest.mark.parametrize("kind", ["sgd", "momentum", "rmsprop", "centered-rmsprop", "adagrad", "adam"])
@pytest.mark.parametrize("shards", [1, 3])
def test_one_worker_is_bit_identical_to_a_local_vector(open_vector: Open, kind: str, shards: int):
    optimizer = OptimizerOptions(kind, learning_rate=0.01)
    generator = np.random.default_rng(0)
    initial = generator.standard_normal(1001).astype(np.float32)
    served = open_vector(initial, ServedOptions(shards), fresh=True, optimizer=optimizer)
    local = LocalVector(initial, optimizer)
    for step in range(1, 21):
        gradient = generator.standard_normal(1001).astype(np.float32)
        for vector in (served, local):
            vector.pull()
            vector.gradient[:] = gradient * vector.parameters
            assert vector.apply() == (step, 0, True)
    assert served.pull() == local.pull() == 20
    assert (served.parameters == local.parameters).all()
    ours, theirs = served.state(), local.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_local_updates_move_the_workers_copy_until_a_fetch(open_vector: Open):
    """Plain SGD with rate 0.5: 8 - 0.5 * 2 = 7, then 7 - 0.5 * 4 = 5; the other worker's 6 takes 3 from the shards."""
    worker = open_vector([8.0], ServedOptions(fetch_period=2, local_updates=True), fresh=True)
    other = open_vector([0.0])
    assert push(worker, 2.0) == (1, 0, True)
    assert worker.parameters.tolist() == [7.0]
    assert push(other, 6.0) == (2, 1, True)
    assert (worker.pull(), worker.parameters.tolist()) == (0, [7.0])  # not due
    assert push(worker, 4.0) == (3, 1, True)
    assert worker.parameters.tolist() == [5.0]
    assert (worker.pull(), worker.parameters.tolist()) == (3, [2.0])  # 8 - 1 - 3 - 2


def test_local_updates_are_plain_sgd_whatever_the_servers_optimizer(open_vector: Open):
    """AdaGrad's first step is the rate in the gradient's direction, 8 - 0.5, and the copy's is 8 - 0.5 * 4."""
    adagrad = OptimizerOptions("adagrad", learning_rate=0.5)
    worker = open_vector([8.0], ServedOptions(fetch_period=2, local_updates=True), fresh=True, optimizer=adagrad)
    push(worker, 4.0)
    assert worker.parameters.tolist() == [6.0]
    assert open_vector([0.0], optimizer=adagrad).parameters.tolist() == pytest.approx([7.5])


def test_local_updates_follow_every_gradient_of_a_sum(open_vector: Open):
    worker = open_vector([8.0], ServedOptions(push_period=2, local_updates=True), fresh=True)
    push(worker, 2.0)
    assert (worker.pull(), worker.parameters.tolist()) == (0, [7.0])
    assert open_vector([0.0]).parameters.tolist() == [8.0]  # nothing is sent yet
    push(worker, 4.0)
    assert worker.parameters.tolist() == [5.0]
    assert (worker.pull(), worker.parameters.tolist()) == (1, [5.0])  # one update of 6: 8 - 0.5 * 6


@pytest.mark.parametrize("push_period", [1, 2])
def test_a_gradient_that_is_not_accepted_does_not_move_the_copy(open_vector: Open, push_period: int):
    options = ServedOptions(fetch_period=9, push_period=push_period, local_updates=True, staleness="drop")
    worker = open_vector([8.0], options, fresh=True)
    assert push(worker, np.nan) == (0, -1, False)
    other = open_vector([0.0], ServedOptions(staleness="drop"))
    push(other, 6.0)
    sent = [push(worker, 2.0) for _ in range(push_period)]
    assert sent[-1] == (1, 1, False)
    assert worker.parameters.tolist() == [8.0 - 1.0 * (push_period - 1)]  # the first of two was only summed
    assert (worker.pull(), worker.parameters.tolist()) == (1, [5.0])


def test_between_two_fetches_the_newest_known_version_is_reported(open_vector: Open):
    worker = open_vector([8.0], ServedOptions(fetch_period=9, push_period=2), fresh=True)
    assert push(worker, 1.0) == (0, None, True)
    assert push(worker, 1.0) == (1, 0, True)
    assert push(worker, 1.0) == (1, None, True)  # the copy is still that of version 0
    assert push(worker, np.nan) == (1, -1, False)
    assert worker.version == 0


@pytest.mark.parametrize(("push_period", "fetch_period"), [(1, 100), (3, 1), (3, 100), (10, 1000)])
def test_a_delayed_vector_keeps_its_period_where_gradients_are_summed(
    endpoint: Endpoint, push_period: int, fetch_period: int
):
    options = ServedOptions(fetch_period=fetch_period, push_period=push_period)
    vectors = [
        ServedVector(np.zeros(1, np.float32), DESCENT, endpoint, name, options, fresh=True) for name in ("q", "policy")
    ]
    delay, due = Delay(*vectors, 2), []
    for _ in range(600):
        for vector in vectors:
            vector.pull()
        due.append(delay.due())
        delay.apply(delayed=due[-1])
    longest = max(len(list(run)) for value, run in itertools.groupby(due) if value)
    assert longest <= push_period
    assert abs(due.count(True) - 300) <= 2 * push_period
    for vector in vectors:
        vector.close()


def test_a_restarted_shard_server_is_waited_for_where_the_runs_own_server_is_not(tmp_path):
    own, data = Server(), str(tmp_path / "data")
    further = Server(data=data, shard_save_seconds=1e6)
    address = further.listen(f"unix:{tmp_path / 'socket'}")
    options = ServedOptions(shards=2, servers=(address,))
    vector = ServedVector(
        np.zeros(2, np.float32), DESCENT, Endpoint(own.listen("unix:@")), "model", options, fresh=True
    )
    assert push(vector, 1.0) == (1, 0, True)
    further.close()
    del further  # which releases the directory
    with contextlib.closing(Server(data=data)) as again:
        again.listen(address)
        assert push(vector, 1.0)[2]
        assert (vector.pull(), vector.parameters.tolist()) == (2, [-1.0, -1.0])
    vector.close()
    own.close()


def test_without_local_updates_the_copy_waits_for_the_fetch(open_vector: Open):
    worker = open_vector([8.0], ServedOptions(fetch_period=2), fresh=True)
    push(worker, 2.0)
    assert worker.parameters.tolist() == [8.0]


def test_a_joining_worker_gets_shared_parameters_and_counts_staleness(open_vector: Open):
    one = open_vector([1, 2], fresh=True)
    assert push(one, 2) == (1, 0, True)
    other = open_vector([7, 7])
    assert other.parameters.tolist() == [0, 1]
    assert other.version == 1
    assert push(one, 2) == (2, 0, True)  # its own update does not count
    assert push(other, 2) == (3, 1, True)
    assert one.version == 0
    assert one.pull() == 3
    assert one.parameters.tolist() == [-2, -1]
    assert open_vector([7, 7], fresh=True).parameters.tolist() == [7, 7]


def test_joining_shards_that_a_restarted_server_lost_is_refused(tmp_path):
    address = f"unix:{tmp_path}/server"
    handle = ServedHandle(ServedOptions())
    server = Server()
    server.listen(address)
    first = ServedVector(np.ones(2, np.float32), DESCENT, Endpoint(address), handle.name, handle.options, fresh=True)
    worker = handle.open(np.full(2, 7, np.float32), DESCENT, Endpoint(address, reconnect_seconds=10.0), 0, 0)
    assert worker.parameters.tolist() == [1, 1]
    server.close()
    first.close()
    server = Server()
    server.listen(address)
    with pytest.raises(ServerError, match="is not on this server"):
        worker.pull()
    with pytest.raises(ServerError, match="no initial values were given"):
        handle.open(np.full(2, 7, np.float32), DESCENT, Endpoint(address), 0, 0)
    assert not server.stats()["shards"]
    worker.close()
    server.close()


def test_the_thread_of_a_shard_competes_for_a_core_like_its_workers(open_vector: Open):
    before = set(os.listdir("/proc/self/task"))
    vector = open_vector([1.0], fresh=True)
    vector.apply()
    started = [int(thread) for thread in set(os.listdir("/proc/self/task")) - before]
    policies = {os.sched_getscheduler(thread) for thread in started}
    assert policies == {os.SCHED_BATCH, os.sched_getscheduler(os.getpid())}, "the one that made the shard, and its own"


def test_a_worker_continues_with_a_server_that_lost_updates(tmp_path):
    server = Server(data=str(tmp_path / "data"), shard_save_seconds=1e6)
    endpoint = Endpoint(server.listen(f"unix:{tmp_path / 'socket'}"), "run", reconnect_seconds=60.0)
    options = ServedOptions(fetch_period=100)
    vector = ServedVector(np.zeros(2, np.float32), DESCENT, endpoint, "model", options, fresh=True)
    for version in range(1, 4):
        assert push(vector, 1.0) == (version, 0, True)
    shutil.copytree(tmp_path / "data", tmp_path / "killed")  # what a server that is killed now leaves
    server.close()
    with contextlib.closing(vector), contextlib.closing(Server(data=str(tmp_path / "killed"))) as again:
        again.listen(endpoint.address)
        assert push(vector, 2.0) == (5, 1, True)  # the restart is version 4
        assert vector.parameters.tolist() == [0.0, 0.0]
        assert vector.pull() == 5  # before the end of the period
        assert vector.parameters.tolist() == [-1.0, -1.0]
        assert push(vector, 2.0) == (6, 0, True)
        assert vector.state()["steps"] == 2
        again.drop("run/")
        assert not list((tmp_path / "killed").glob("shard-*"))


def test_a_worker_keeps_its_parameters_between_two_fetches(open_vector: Open):
    vector = open_vector([0.0], ServedOptions(fetch_period=3), fresh=True)
    seen = []
    for _ in range(7):
        vector.pull()
        seen.append(vector.parameters.item())
        push(vector, 2)
    assert seen == [0, 0, 0, -3, -3, -3, -6]


def test_gradients_are_summed_until_they_are_sent(open_vector: Open):
    vector = open_vector([0.0], ServedOptions(push_period=3), fresh=True)
    assert [push(vector, gradient) for gradient in (2, 4, 8)] == [(0, None, True), (0, None, True), (1, 0, True)]
    assert vector.pull() == 1
    assert vector.parameters.item() == -7
    assert [push(vector, 2) for _ in range(3)] == [(1, None, True), (1, None, True), (2, 0, True)]
    assert vector.pull() == 2
    assert vector.parameters.item() == -10


def test_a_sum_is_as_stale_as_its_first_gradient(open_vector: Open):
    one = open_vector([0.0], ServedOptions(push_period=2), fresh=True)
    other = open_vector([0.0])
    assert push(one, 2) == (0, None, True)
    push(other, 2)
    assert one.pull() == 0  # a sum is open
    assert push(one, 2) == (2, 1, True)
    assert one.pull() == 2


def test_a_gradient_that_is_not_finite_is_refused_and_changes_nothing(open_vector: Open):
    vector = open_vector([1.0, 1.0], ServedOptions(shards=2), fresh=True)
    assert push(vector, float("nan")) == (0, -1, False)
    assert push(vector, 1) == (1, 0, True)
    vector.pull()
    assert vector.parameters.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("component", [float("nan"), float("-inf"), 2.0**60, -(2.0**60)])
def test_a_gradient_that_no_server_accepts_is_not_summed(open_vector: Open, component: float):
    vector = open_vector([1.0, 1.0], ServedOptions(push_period=2), fresh=True)
    push(vector, 1)
    vector.gradient[:] = [1, component]
    assert vector.apply() == (0, -1, False)
    assert push(vector, 2) == (1, 0, True)
    vector.pull()
    assert vector.parameters.tolist() == [-0.5, -0.5]


def test_a_gradient_beyond_the_limit_is_dropped(open_vector: Open):
    options = ServedOptions(staleness="drop", staleness_limit=1)
    one, other = open_vector([0.0], options, fresh=True), open_vector([0.0], options)
    assert push(one, 2) == (1, 0, True)
    assert push(other, 2) == (2, 1, True)
    assert push(one, 2) == (3, 1, True)
    assert push(other, 2) == (3, 2, False)
    assert other.pull() == 3
    assert push(other, 2) == (4, 0, True)


def test_delay_compensation_corrects_for_the_change_since_the_fetch(open_vector: Open):
    options = ServedOptions(staleness="compensate", compensation=0.25)
    one, other = open_vector([1.0], options, fresh=True), open_vector([1.0], options)
    push(one, 2)  # 1 - 0.5 * 2 = 0
    push(other, 2)  # 2 + 0.25 * 4 * (0 - 1) = 1: -0.5
    one.pull()
    assert one.parameters.item() == -0.5


def test_after_a_drop_a_worker_fetches_regardless_of_its_period(open_vector: Open):
    options = ServedOptions(fetch_period=10, staleness="drop")
    one, other = open_vector([0.0], options, fresh=True), open_vector([0.0], options)
    push(one, 2)
    assert push(other, 2) == (1, 1, False)
    assert other.pull() == 1
    assert push(other, 2) == (2, 0, True)


def test_a_worker_whose_kept_copy_was_evicted_fetches_again():
    vectors = 4  # the shard's, one that a worker fetched, and a reply on each connection
    received = 2 * 65_536  # a buffer of each connection
    server = Server(memory_bytes=vectors * 40_000 + received + 20_000)
    endpoint = Endpoint(server.listen("tcp://127.0.0.1:0"))
    options = ServedOptions(staleness="compensate", compensation=0.25)
    initial = np.zeros(10_000, np.float32)
    one, other = (ServedVector(initial, DESCENT, endpoint, "model", options, fresh=fresh) for fresh in (True, False))
    assert push(one, 2) == (0, 0, False)  # there is room for one worker's, and the other fetched since
    assert one.pull() == 0
    assert push(one, 2) == (1, 0, True)
    for vector in (one, other):
        vector.close()
    server.close()


def test_a_local_checkpoint_continues_on_the_server(open_vector: Open):
    optimizer = OptimizerOptions("adam", learning_rate=0.1)
    local = LocalVector(np.arange(5, dtype=np.float32), optimizer)
    local.gradient.fill(1.0)
    local.apply()
    served = open_vector(np.zeros(5), ServedOptions(2), fresh=True, optimizer=optimizer)
    served.load(local.state())
    assert served.version == 1
    for vector in (local, served):
        vector.gradient.fill(-2.0)
        assert vector.apply() == (2, 0, True)
        vector.pull()
    assert (served.parameters == local.parameters).all()


def test_an_incompatible_checkpoint_is_refused(open_vector: Open):
    vector = open_vector([0.0, 0.0], fresh=True)
    state = vector.state()
    for wrong in ({}, {**state, "parameters": np.zeros(3)}, {**state, "moments": np.zeros((1, 2))}):
        with pytest.raises(CheckpointError, match="do not fit"):
            vector.load(wrong)
    assert vector.pull() == 0


def test_settings_that_differ_from_the_shards_are_refused(open_vector: Open):
    open_vector([0.0], fresh=True)
    with pytest.raises(ServerError, match="policy=scale"):
        open_vector([0.0], ServedOptions(staleness="scale"))
    with pytest.raises(ConfigError, match="shards: 2"):
        open_vector([0.0], ServedOptions(shards=2))


def test_shards_are_placed_on_additional_servers_too(endpoint: Endpoint):
    further = Server(token=TOKEN)
    options = ServedOptions(shards=3, servers=(further.listen("unix:@"),))
    vector = ServedVector(np.zeros(5, np.float32), DESCENT, endpoint, "model", options, fresh=True)
    assert push(vector, 2) == (1, 0, True)
    vector.pull()
    assert vector.parameters.tolist() == [-1.0] * 5
    assert list(further.stats()["shards"]) == ["run/model/1"]
    vector.close()
    further.close()


def test_redis_does_not_support_shards():
    endpoint = Endpoint("redis://user:secret@host:1")
    with pytest.raises(ConfigError, match=r"redis://user@host:1;.*headrace serve"):
        ServedVector(np.zeros(1, np.float32), DESCENT, endpoint, "model", ServedOptions(), fresh=True)


class Recorder(World):
    def __init__(self) -> None:
        self.works: list[str] = []

    def spend(self, work: str, count: int = 1) -> None:
        self.works.append(work)


@pytest.mark.parametrize("period", [1, 2])
def test_a_simulated_worker_pays_for_the_sum_of_gradients(open_vector: Open, period: int):
    vector, recorder = open_vector([1.0], ServedOptions(push_period=period), fresh=True), Recorder()
    with inhabit(recorder):
        push(vector, 1.0)
        push(vector, 1.0)
    assert recorder.works == ["sum", "sum"] * (period > 1)
