"""Tables behind a server, over Unix sockets and TCP: the same calls, tokens, lost connections."""

import collections
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import errors
from headrace._native import Server
from headrace.replay import ChunkWriter, Connection, RemoteTable, Signature
from headrace.replay.remote import read_token

SIGNATURE = Signature((2,), "float32")
STEPS = 8
TOKEN = b"a secret of some length"
ADDRESSES = ["unix:@", "tcp://127.0.0.1:0"]


@pytest.mark.parametrize("file", ["/dev/zero", "long"])
def test_a_token_file_without_end_is_refused(tmp_path: Path, file: str) -> None:
    path = tmp_path / file  # /dev/zero is absolute
    if file == "long":
        path.write_bytes(bytes(8_193))
    with pytest.raises(errors.ConfigError, match=f"token_file is {path}; .* 8192 bytes"):
        read_token(path)


def test_a_token_may_come_through_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"0123456789")
    os.write(writer, b"abcdef\n")
    os.close(writer)
    assert read_token(f"/dev/fd/{reader}") == b"0123456789abcdef"
    os.close(reader)


def chunks(count: int) -> list[bytes]:
    """Chunks of one writer, 8 steps each: frames filled with their number in the episode, which never ends."""
    writer = ChunkWriter(SIGNATURE, chunk_steps=STEPS)
    writer.start(np.zeros(2, np.float32))
    for i in range(count * STEPS):
        writer.append(i, float(i), np.full(2, i + 1, np.float32), False, False)
    writer.flush()
    return writer.take()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_bytes(TOKEN + b"\n")
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(token=TOKEN)
    yield server
    server.close()


@pytest.fixture(params=ADDRESSES)
def address(request: pytest.FixtureRequest, server: Server) -> str:
    server.add_table("replay", SIGNATURE, capacity=100)
    return server.listen(request.param)


@pytest.fixture
def table(address: str, token_file: Path) -> RemoteTable:
    return headrace.connect(address, token_file=token_file).table("replay")


def test_the_same_calls_as_in_this_process(server: Server, table: RemoteTable) -> None:
    assert table.signature == SIGNATURE
    writer = table.writer(chunk_steps=STEPS)
    writer.start(np.zeros(2, np.float32))
    for i in range(STEPS):
        writer.append(i, 1.0, np.full(2, i + 1, np.float32), i + 1 == STEPS, False)
    assert server.table("replay").size == STEPS
    batch = table.sample(4)
    assert batch is not None
    assert batch.observation.tolist() == [[i, i] for i in batch.key]
    assert table.update_priorities(batch.key, -np.ones(4, np.float32)) == 4
    assert table.stats()["updates"] == 4
    assert all(isinstance(value, int | float) for value in table.stats().values())


def test_batches_ahead(server: Server, table: RemoteTable, address: str) -> None:
    batches = table.batches_ahead(4, 0.4, 3)
    assert table.batches_ahead(4, 0.4, 3).shared == address.startswith("unix:")
    assert batches.next(0.0) is None
    server.table("replay").insert(chunks(1)[0])
    for _ in range(10):
        batch = batches.next(10.0)
        assert batch is not None
        assert batch.observation.tolist() == [[i, i] for i in batch.key]
        assert batch.next_observation.tolist() == [[i + 1, i + 1] for i in batch.key]
        assert table.update_priorities(batch.key, np.ones(4, np.float32)) == 4
    batches.close()
    with pytest.raises(errors.ClosedError):
        collections.deque(iter(batches.next, None), maxlen=0)  # what had come already, then the end


def test_states(server: Server, table: RemoteTable) -> None:
    held = server.table("replay")
    one, two, three = chunks(3)
    table.set_paused(True)
    assert held.insert(one, 0.0) is None
    table.set_paused(False)
    assert held.insert(one, 0.0) == 0
    assert held.insert(two, 0.0) == STEPS
    table.close()
    with pytest.raises(errors.ClosedError):
        table.insert(three)


def test_the_server_keeps_the_experience(table: RemoteTable) -> None:
    for call in (table.save, table.restore):
        with pytest.raises(errors.ReplayError, match="the server keeps the experience"):
            call("somewhere")


def test_a_dropped_table_is_named(server: Server, table: RemoteTable) -> None:
    server.drop("replay")
    with pytest.raises(errors.ServerError, match="replay"):
        table.stats()


class TestToken:
    def test_tcp_requires_a_token_and_a_unix_socket_does_not(self, server: Server, token_file: Path) -> None:
        server.add_table("replay", SIGNATURE)
        tcp = server.listen("tcp://127.0.0.1:0")
        headrace.connect(server.listen("unix:@")).close()
        headrace.connect(tcp, token_file=token_file).close()
        with pytest.raises(errors.ServerError, match="token"):
            headrace.connect(tcp)

    def test_a_wrong_token_is_refused(self, server: Server, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.write_bytes(TOKEN[::-1])
        with pytest.raises(errors.ServerError, match="token") as raised:
            headrace.connect(server.listen("tcp://127.0.0.1:0"), token_file=other)
        assert TOKEN[::-1].decode() not in str(raised.value)

    def test_files_without_a_token_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(errors.ConfigError, match=r"token_file is .*missing"):
            headrace.connect("unix:@nobody", token_file=tmp_path / "missing")
        empty = tmp_path / "empty"
        empty.touch()
        with pytest.raises(errors.ConfigError, match="token"):
            headrace.connect("unix:@nobody", token_file=empty)

    @pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
    def test_listening_beyond_loopback_requires_a_token(self, host: str) -> None:
        with pytest.raises(errors.ServerError, match="token"):
            Server().listen(f"tcp://{host}:0")


def serve(address: str, data: str, pipe: Pipe) -> None:
    """A server on a data directory, until it is killed; sends the address it listens on."""
    server = Server(data=data)
    server.open_table("replay", SIGNATURE, fresh=False, capacity=1000)
    pipe.send(server.listen(address))
    pipe.recv()


Start = Callable[[str], tuple[str, multiprocessing.process.BaseProcess]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers one after another on the same data, each in a separate process."""
    spawn = multiprocessing.get_context("spawn")
    started = []

    def begin(address: str) -> tuple[str, multiprocessing.process.BaseProcess]:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(address, str(tmp_path / "data"), theirs), daemon=True)
        process.start()
        started.append((process, ours))
        return ours.recv(), process

    yield begin
    for process, _ in started:
        process.kill()
        process.join()


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_restarted_server_has_all_acknowledged_chunks(start: Start, tmp_path: Path, kind: str) -> None:
    address, process = start(kind if kind.startswith("tcp") else f"unix:{tmp_path / 'socket'}")
    connection = Connection(address, reconnect_seconds=60)
    table = connection.table("replay")
    batches = table.batches_ahead(4, 0.4, 2)
    sent = chunks(4)
    assert [table.insert(chunk) for chunk in sent[:2]] == [0, STEPS]
    assert batches.next(60.0) is not None
    instance = connection.client.instance
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    start(address)
    assert table.insert(sent[2]) == 2 * STEPS  # behind the two that the file kept
    assert connection.client.reconnections == 1
    assert connection.client.instance != instance
    assert table.stats()["size"] == 3 * STEPS
    keys: set[int] = set()
    for _ in range(200):
        batch = batches.next(60.0)
        assert batch is not None
        assert batch.observation.tolist() == [[i, i] for i in batch.key]
        keys |= set(batch.key.tolist())
        if max(keys) >= 2 * STEPS:
            break
    assert max(keys) >= 2 * STEPS  # drawn after the restart


def test_without_reconnect_a_lost_connection_raises(start: Start) -> None:
    address, process = start("tcp://127.0.0.1:0")
    table = Connection(address).table("replay")
    process.kill()
    process.join()
    with pytest.raises(errors.ClosedError):
        table.stats()
    with pytest.raises(errors.StorageError, match=address):
        headrace.connect(address, timeout_seconds=0.0)
