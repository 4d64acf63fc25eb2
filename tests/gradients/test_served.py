"""Parameters in a server's shards, against those of this process and against sums worked out by hand."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from headrace._native import OptimizerOptions, Server
from headrace.errors import CheckpointError, ConfigError, ReplayError
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

        def open_(initial, options: ServedOptions | None = None, fresh: bool = False) -> ServedVector:
            values = np.asarray(initial, np.float32)
            vector = ServedVector(values, endpoint, "model", options or ServedOptions(DESCENT), fresh=fresh)
            return stack.enter_context(contextlib.closing(vector))

        yield open_


def push(vector: ServedVector, gradient: float) -> tuple[int, int, bool]:
    vector.gradient.fill_(gradient)
    return tuple(vector.apply())


@pytest.mark.parametrize("kind", ["sgd", "momentum", "rmsprop", "centred-rmsprop", "adagrad", "adam"])
@pytest.mark.parametrize("shards", [1, 3])
def test_one_worker_computes_what_a_vector_of_its_own_would_to_the_bit(open_vector: Open, kind: str, shards: int):
    optimizer = OptimizerOptions(kind, learning_rate=0.01)
    generator = np.random.default_rng(0)
    initial = generator.standard_normal(1001).astype(np.float32)
    served = open_vector(initial, ServedOptions(optimizer, shards), fresh=True)
    local = LocalVector(initial, optimizer)
    for step in range(1, 21):
        gradient = torch.from_numpy(generator.standard_normal(1001).astype(np.float32))
        for vector in (served, local):
            vector.pull()
            vector.gradient.copy_(gradient * vector.parameters)
            assert vector.apply() == (step, 0, True)
    assert served.pull() == local.pull() == 20
    assert torch.equal(served.parameters, local.parameters)
    ours, theirs = served.state(), local.state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_worker_that_joins_has_the_parameters_of_all_and_is_stale_by_what_others_did(open_vector: Open):
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


def test_between_two_fetches_a_worker_goes_on_with_what_it_has(open_vector: Open):
    vector = open_vector([0.0], ServedOptions(DESCENT, fetch_period=3), fresh=True)
    seen = []
    for _ in range(7):
        vector.pull()
        seen.append(vector.parameters.item())
        push(vector, 2)
    assert seen == [0, 0, 0, -3, -3, -3, -6]


def test_gradients_are_summed_until_they_are_sent(open_vector: Open):
    vector = open_vector([0.0], ServedOptions(DESCENT, push_period=3), fresh=True)
    versions = [push(vector, gradient)[0] for gradient in (2, 4, 8, 2, 2)]
    assert versions == [0, 0, 1, 0, 0]  # what was fetched has version 0
    assert vector.pull() == 1
    assert vector.parameters.item() == -7
    push(vector, 2)
    assert vector.pull() == 2
    assert vector.parameters.item() == -10


def test_a_gradient_that_is_not_finite_is_refused_and_spoils_nothing(open_vector: Open):
    for period in (1, 2):
        vector = open_vector([1.0, 1.0], ServedOptions(DESCENT, shards=2, push_period=period), fresh=True)
        for _ in range(period - 1):
            push(vector, 0)
        assert push(vector, float("nan")) == (0, -1, False)
        for _ in range(period):
            applied = push(vector, 1)
        assert applied == (1, 0, True)
        vector.pull()
        assert vector.parameters.tolist() == [1 - period / 2] * 2


def test_a_gradient_beyond_the_limit_is_dropped(open_vector: Open):
    options = ServedOptions(DESCENT, staleness="drop", staleness_limit=1)
    one, other = open_vector([0.0], options, fresh=True), open_vector([0.0], options)
    assert push(one, 2) == (1, 0, True)
    assert push(other, 2) == (2, 1, True)
    assert push(one, 2) == (3, 1, True)
    assert push(other, 2) == (3, 2, False)
    assert other.pull() == 3
    assert push(other, 2) == (4, 0, True)


def test_delay_compensation_corrects_by_what_has_changed_since_the_fetch(open_vector: Open):
    options = ServedOptions(DESCENT, staleness="compensate", compensation=0.25)
    one, other = open_vector([1.0], options, fresh=True), open_vector([1.0], options)
    push(one, 2)  # 1 - 0.5 * 2 = 0
    push(other, 2)  # 2 + 0.25 * 4 * (0 - 1) = 1: -0.5
    one.pull()
    assert one.parameters.item() == -0.5


def test_a_checkpoint_of_this_process_goes_on_in_the_server(open_vector: Open):
    optimizer = OptimizerOptions("adam", learning_rate=0.1)
    local = LocalVector(np.arange(5, dtype=np.float32), optimizer)
    local.gradient.fill_(1.0)
    local.apply()
    served = open_vector(np.zeros(5), ServedOptions(optimizer, shards=2), fresh=True)
    served.load(local.state())
    assert served.version == 1
    for vector in (local, served):
        vector.gradient.fill_(-2.0)
        assert vector.apply() == (2, 0, True)
        vector.pull()
    assert torch.equal(served.parameters, local.parameters)


def test_a_checkpoint_that_does_not_fit_says_so(open_vector: Open):
    vector = open_vector([0.0, 0.0], fresh=True)
    state = vector.state()
    for wrong in ({}, {**state, "parameters": torch.zeros(3)}, {**state, "moments": torch.zeros(1, 2)}):
        with pytest.raises(CheckpointError, match="do not fit"):
            vector.load(wrong)
    assert vector.pull() == 0


def test_other_settings_than_the_shards_began_with_are_refused(open_vector: Open):
    open_vector([0.0], fresh=True)
    with pytest.raises(ReplayError, match="policy=scale"):
        open_vector([0.0], ServedOptions(DESCENT, staleness="scale"))
    with pytest.raises(ConfigError, match="shards: 2"):
        open_vector([0.0], ServedOptions(DESCENT, shards=2))


def test_shards_lie_on_further_servers_too(endpoint: Endpoint):
    further = Server(token=TOKEN)
    options = ServedOptions(DESCENT, shards=3, servers=(further.listen("unix:@"),))
    vector = ServedVector(np.zeros(5, np.float32), endpoint, "model", options, fresh=True)
    assert push(vector, 2) == (1, 0, True)
    vector.pull()
    assert vector.parameters.tolist() == [-1.0] * 5
    assert list(further.stats()["shards"]) == ["run/model/1"]
    vector.close()
    further.close()


def test_a_redis_has_no_shards():
    endpoint = Endpoint("redis://user:secret@host:1")
    with pytest.raises(ConfigError, match=r"redis://user@host:1;.*headrace serve"):
        ServedVector(np.zeros(1, np.float32), endpoint, "model", ServedOptions(DESCENT), fresh=True)
