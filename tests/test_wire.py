"""The protocol as documented in native/wire/frame.h, written a second time, in Python, against the session."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import errors
from headrace._native import ChunkWriter, Client, Server, Session, Signature

HEADER = struct.Struct("<HBBB3xQQ")
MAGIC = 0x5248
SIGNATURE_TYPE, INSERT, SAMPLE, UPDATE, PUBLISH, FETCH, PUT, DRAIN, STATS = range(1, 10)
OK, INVALID, REFUSED, NOT_FOUND, CLOSED, CORRUPT, NOTHING = 0, 1, 2, 3, 4, 5, 255
SIGNATURE = Signature((2,), "float32")


class Reply(NamedTuple):
    type: int
    status: int
    request: int
    body: bytes


def frame(kind: int, name: str = "", payload: bytes = b"", request: int = 1) -> bytes:
    body = struct.pack("<H", len(name)) + name.encode() + payload
    return HEADER.pack(MAGIC, 1, kind, 0, request, len(body)) + body


def replies(data: bytes) -> Iterator[Reply]:
    while data:
        magic, version, kind, status, request, length = HEADER.unpack_from(data)
        assert (magic, version) == (MAGIC, 1)
        assert len(data) >= HEADER.size + length
        yield Reply(kind, status, request, data[HEADER.size : HEADER.size + length])
        data = data[HEADER.size + length :]


def chunk(steps: int = 4) -> bytes:
    writer = ChunkWriter(SIGNATURE, chunk_steps=steps)
    writer.start(np.zeros(2, np.float32))
    for i in range(steps):
        writer.append(i, 1.0, np.full(2, i + 1, np.float32), i + 1 == steps, False)
    return writer.take()[0]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.add_table("replay", SIGNATURE, capacity=100)
    yield server
    server.close()


def test_every_request_by_hand(server: Server) -> None:
    session = Session(server)
    requests = [
        frame(SIGNATURE_TYPE, "replay", request=1),
        frame(INSERT, "replay", chunk(), request=2),
        frame(SAMPLE, "replay", struct.pack("<Idq", 3, 0.4, -1), request=3),
        frame(UPDATE, "replay", struct.pack("<QQff", 0, 77, 1.0, 2.0), request=4),
        frame(PUBLISH, "policy", struct.pack("<Q", 0) + b"weights", request=5),
        frame(FETCH, "policy", struct.pack("<Q", 0), request=6),
        frame(FETCH, "policy", struct.pack("<Q", 1), request=7),
        frame(PUT, "episodes", b"one", request=8),
        frame(DRAIN, "episodes", request=9),
        frame(STATS, request=10),
    ]
    got = list(replies(session.receive(b"".join(requests))))
    assert [reply.request for reply in got] == list(range(1, 11))
    assert [reply.status for reply in got] == [OK] * 6 + [NOTHING] + [OK] * 3
    assert [reply.type for reply in got] == [0x80 | kind for kind in (1, 2, 3, 4, 5, 6, 6, 7, 8, 9)]
    assert got[0].body.decode() == SIGNATURE.encode()
    assert got[1].body == struct.pack("<Q", 0)
    assert len(got[2].body) == 3 * (8 + 8 + 8 + 4 * 4 + 8 + 8)
    keys = np.frombuffer(got[2].body[-48:-24], np.uint64)
    actions = np.frombuffer(got[2].body[48:72], np.int64)
    assert keys.tolist() == actions.tolist()
    assert got[3].body == struct.pack("<Q", 1)
    assert got[5].body == struct.pack("<Q", 1) + b"weights"
    assert got[8].body == struct.pack("<I", 3) + b"one"
    assert not session.closing


def test_a_frame_may_arrive_byte_by_byte(server: Server) -> None:
    session = Session(server)
    data = frame(INSERT, "replay", chunk())
    assert all(session.receive(data[i : i + 1]) == b"" for i in range(len(data) - 1))
    (reply,) = replies(session.receive(data[-1:]))
    assert reply.status == OK


def test_a_held_request_is_answered_when_it_can_be(server: Server) -> None:
    table = server.table("replay")
    session = Session(server)
    waiting = frame(SAMPLE, "replay", struct.pack("<Idq", 2, 0.4, -1), request=1) + frame(STATS, request=2)
    assert session.receive(waiting) == b""
    table.insert(chunk())
    assert [reply.request for reply in replies(session.receive(b""))] == [1, 2]


@pytest.mark.parametrize(
    ("header", "status", "names"),
    [
        (HEADER.pack(0, 1, 1, 0, 1, 0), CORRUPT, "magic"),
        (HEADER.pack(MAGIC, 2, 1, 0, 1, 0), CORRUPT, "version 2"),
        (HEADER.pack(MAGIC, 1, 1, 0, 1, 4097), REFUSED, "4097 bytes: at most 4096"),
        (HEADER.pack(MAGIC, 1, 1, 0, 1, 2**64 - 1), REFUSED, "at most 4096"),
    ],
)
def test_a_bad_header_closes(server: Server, header: bytes, status: int, names: str) -> None:
    session = Session(server, max_frame_bytes=4096)
    (reply,) = replies(session.receive(header))
    assert reply.status == status
    assert names in reply.body.decode()
    assert session.closing
    assert session.receive(frame(STATS)) == b""


def test_the_refusal_of_a_chunk_names_the_field(server: Server) -> None:
    session = Session(server)
    data = bytearray(chunk())
    data[0] ^= 1
    (reply,) = replies(session.receive(frame(INSERT, "replay", bytes(data))))
    assert reply.status == REFUSED
    assert "magic" in reply.body.decode()
    (reply,) = replies(session.receive(frame(INSERT, "replay", chunk())))
    assert reply.status == OK


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_random_bytes_get_whole_replies(data: bytes, cut: int) -> None:
    server = Server()
    session = Session(server, max_frame_bytes=1 << 16)
    list(replies(session.receive(data[:cut]) + session.receive(data[cut:])))


@given(
    kind=st.integers(0, 255),
    name=st.sampled_from(["", "replay", "policy", "x" * 300]),
    payload=st.binary(max_size=64),
    damage=st.lists(st.tuples(st.integers(8, 400), st.integers(0, 255)), max_size=3),
)
def test_damaged_requests_are_answered(kind: int, name: str, payload: bytes, damage: list[tuple[int, int]]) -> None:
    server = Server()
    server.add_table("replay", SIGNATURE, capacity=100)
    session = Session(server, max_frame_bytes=1 << 16)
    data = bytearray(frame(kind, name, payload))
    for at, value in damage:
        if at < len(data) and not 16 <= at < 24:  # a length changed would only wait for more
            data[at] = value
    answer = list(replies(session.receive(bytes(data))))
    server.close()  # a sample may be held: its table closes
    answer += replies(session.receive(b""))
    assert len(answer) == 1
    assert not session.closing


def test_an_abstract_name_leaves_nothing_behind(server: Server) -> None:
    address = server.listen("unix:@")
    name = address.removeprefix("unix:")
    assert name in Path("/proc/net/unix").read_text()
    server.close()
    assert name not in Path("/proc/net/unix").read_text()


def test_socket_files(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    address = server.listen(f"unix:{path}")
    assert path.is_socket()
    assert path.stat().st_mode & 0o777 == 0o600
    assert Client(address).signature("replay") == SIGNATURE
    with pytest.raises(errors.StorageError, match="listens there already"):
        Server().listen(address)
    server.close()
    assert not os.path.lexists(path)

    path.write_text("precious")
    with pytest.raises(errors.StorageError, match="not a socket"):
        Server().listen(address)
    assert path.read_text() == "precious"
