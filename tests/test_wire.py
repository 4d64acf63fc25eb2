"""The protocol as documented in native/wire/frame.h, written a second time, in Python, against the session."""

import hashlib
import hmac
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
VERSION = 6
SIGNATURE_TYPE, INSERT, SAMPLE, UPDATE, PUBLISH, FETCH, PUT, DRAIN, STATS = range(1, 10)
HELLO, AUTHENTICATE, OPEN_TABLE, SET_STATE, DROP, CLAIM, SHARE, SAMPLE_SHARED = range(10, 18)
UNNAMED = {STATS, HELLO, AUTHENTICATE}
OK, INVALID, REFUSED, NOT_FOUND, CLOSED, MALFORMED, CHUNK_REFUSED, NOTHING = 0, 1, 2, 3, 4, 5, 7, 255
OPEN, PAUSED, SHUT = 0, 1, 2
TOKEN = b"0123456789abcdef"
SIGNATURE = Signature((2,), "float32")


class Reply(NamedTuple):
    type: int
    status: int
    request: int
    body: bytes


def frame(kind: int, name: str = "", payload: bytes = b"", request: int = 1) -> bytes:
    body = struct.pack("<H", len(name)) + name.encode() + payload
    return HEADER.pack(MAGIC, VERSION, kind, 0, request, len(body)) + body


def replies(data: bytes) -> Iterator[Reply]:
    while data:
        magic, version, kind, status, request, length = HEADER.unpack_from(data)
        assert (magic, version) == (MAGIC, VERSION)
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
        frame(INSERT, "replay", struct.pack("<q", -1) + chunk(), request=2),
        frame(SAMPLE, "replay", struct.pack("<Idq", 3, 0.4, -1), request=3),
        frame(UPDATE, "replay", struct.pack("<QQff", 0, 77, 1.0, 2.0), request=4),
        frame(PUBLISH, "policy", struct.pack("<QQQ", 0, 7, 0) + b"weights", request=5),
        frame(FETCH, "policy", struct.pack("<QQ", 0, 0), request=6),
        frame(FETCH, "policy", struct.pack("<QQ", 1, 0), request=7),
        frame(PUT, "episodes", struct.pack("<QQ", 7, 1) + b"one", request=8),
        frame(DRAIN, "episodes", struct.pack("<QQ", 0, 0), request=9),
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
    assert got[5].body == struct.pack("<QQ", 1, 7) + b"weights"
    _, last = struct.unpack_from("<QQ", got[8].body)
    assert last == 1
    assert got[8].body[16:] == struct.pack("<I", 3) + b"one"
    assert not session.closing


def test_a_chunk_by_hand(server: Server) -> None:
    sections = [
        np.array([[0, 0], [1, -1], [2, -2], [3, -3]], "<f4"),  # observation: M = 4 rows
        np.array([30, 31, 32], "<i8"),  # action: T = 3 steps
        np.array([7, 7, 2**40], "<u8"),  # policy version
        *(np.array(rows, "<u4") for rows in ([0, 1, 2], [1, 2, 3])),  # first, last
        *(np.array(numbers, "<f4") for numbers in ([1, 2, 3], [0.5, 0.5, 0], [1, 1, 1])),  # reward, discount, priority
    ]
    body = b"".join(each.tobytes() + bytes(-each.nbytes % 8) for each in sections)
    header = struct.pack("<4sIQIIQI12xQQ", b"HRC2", 0, 64 + len(body), 3, 4, 0, 9, 0, 0)
    assert len(header) == 64
    session = Session(server)
    (reply,) = replies(session.receive(frame(INSERT, "replay", struct.pack("<q", 0) + header + body)))
    assert (reply.status, reply.body) == (OK, struct.pack("<Q", 0))
    (reply,) = replies(session.receive(frame(SAMPLE, "replay", struct.pack("<Idq", 3, 0.4, 0))))
    observation, next_observation = np.frombuffer(reply.body[:48], "<f4").reshape(2, 3, 2)
    assert observation.tolist() == sections[0][:3].tolist()
    assert next_observation.tolist() == sections[0][1:].tolist()
    assert np.frombuffer(reply.body[48:72], "<i8").tolist() == [30, 31, 32]
    assert np.frombuffer(reply.body[-48:], "<u8").tolist() == [0, 1, 2, 7, 7, 2**40]  # key, policy version


def test_a_frame_may_arrive_byte_by_byte(server: Server) -> None:
    session = Session(server)
    data = frame(INSERT, "replay", struct.pack("<q", 0) + chunk())
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
        (HEADER.pack(0, VERSION, 1, 0, 1, 0), MALFORMED, "magic"),
        (HEADER.pack(MAGIC, 2, 1, 0, 1, 0), MALFORMED, "version 2"),
        (HEADER.pack(MAGIC, VERSION, 1, 0, 1, 4097), REFUSED, "4097 bytes: at most 4096"),
        (HEADER.pack(MAGIC, VERSION, 1, 0, 1, 2**64 - 1), REFUSED, "at most 4096"),
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
    wait = struct.pack("<q", 0)
    (reply,) = replies(session.receive(frame(INSERT, "replay", wait + bytes(data))))
    assert reply.status == CHUNK_REFUSED
    assert "magic" in reply.body.decode()
    (reply,) = replies(session.receive(frame(INSERT, "replay", wait + chunk())))
    assert reply.status == OK


def test_a_chunk_sent_again_is_stored_once(server: Server) -> None:
    one = bytearray(chunk())
    struct.pack_into("<QQ", one, 48, 7, 1)  # writer and sequence
    data = frame(INSERT, "replay", struct.pack("<q", -1) + one)
    first, again = Session(server), Session(server)
    (stored,) = replies(first.receive(data))
    (known,) = replies(again.receive(data))
    assert (stored.status, known.status) == (OK, OK)
    assert stored.body == known.body == struct.pack("<Q", 0)
    assert server.table("replay").size == 4


def test_an_insert_waits_no_longer_than_requested(server: Server) -> None:
    server.add_table("held", SIGNATURE, capacity=100, samples_per_insert=1.0, limiter_tolerance=4.0)
    session = Session(server)
    statuses = []
    for request in range(1, 7):
        answer = session.receive(frame(INSERT, "held", struct.pack("<q", 0) + chunk(), request=request))
        statuses += [reply.status for reply in replies(answer)]
    assert statuses[0] == OK
    assert statuses[-1] == NOTHING


def test_messages_are_neither_lost_nor_duplicated(server: Server) -> None:
    session = Session(server)

    def put(writer: int, sequence: int, message: bytes) -> None:
        (reply,) = replies(session.receive(frame(PUT, "box", struct.pack("<QQ", writer, sequence) + message)))
        assert reply.status == OK

    def drain(epoch: int, seen: int) -> tuple[int, int, bytes]:
        (reply,) = replies(session.receive(frame(DRAIN, "box", struct.pack("<QQ", epoch, seen))))
        assert reply.status == OK
        return *struct.unpack_from("<QQ", reply.body), reply.body[16:]

    put(7, 1, b"one")
    put(7, 1, b"one")  # its answer was lost on the way
    put(8, 1, b"two")
    both = struct.pack("<I3sI3s", 3, b"one", 3, b"two")
    epoch, last, messages = drain(0, 0)
    assert messages == both
    assert drain(0, 0) == (epoch, last, both)  # this answer was lost on the way
    assert drain(epoch, last) == (epoch, last, b"")
    put(7, 2, b"three")
    assert drain(epoch, last) == (epoch, last + 1, struct.pack("<I5s", 5, b"three"))


def test_requests_of_a_learner_on_a_standalone_server(server: Server) -> None:
    server.table("replay").insert(chunk())
    options = server_options(server)
    first, second = Session(server), Session(server)
    requests = [
        frame(OPEN_TABLE, "run/replay", b"\x01" + options, request=1),
        frame(SET_STATE, "run/replay", bytes([PAUSED]), request=2),
        frame(SET_STATE, "other", bytes([PAUSED]), request=3),
        frame(SET_STATE, "run/replay", bytes([9]), request=4),
        frame(CLAIM, "run/learner", struct.pack("<QQq", 5, 0, 0), request=5),
        frame(PUBLISH, "run/policy", struct.pack("<QQQ", 0, 1, 0) + b"w", request=6),
        frame(DROP, "run/", request=7),
        frame(SHARE, "replay", struct.pack("<II", 2, 2), request=8),
    ]
    got = list(replies(first.receive(b"".join(requests))))
    assert [reply.status for reply in got[:3]] == [OK, OK, NOT_FOUND]
    assert got[3].status not in {OK, NOTHING}
    assert [reply.status for reply in got[4:7]] == [OK] * 3
    assert got[0].body == struct.pack("<Q", 0)
    assert got[6].body == struct.pack("<Q", 2)
    assert server.table_names() == ["replay"]
    assert got[7].status == REFUSED  # a session under test has no memory to share
    (reply,) = replies(second.receive(frame(CLAIM, "run/learner", struct.pack("<QQq", 6, 0, 0))))
    assert reply.status == REFUSED
    assert "run/learner" in reply.body.decode()
    del first
    (reply,) = replies(second.receive(frame(CLAIM, "run/learner", struct.pack("<QQq", 6, 0, 0))))
    assert reply.status == OK


def server_options(server: Server) -> bytes:
    """The text of TableOptions::encode(): all settings by name, then the signature."""
    settings = {
        "capacity": 100,
        "capacity_bytes": 0,
        "sampler": "prioritized",
        "priority_exponent": 0.6,
        "samples_per_insert": 0.0,
        "tolerance": 0.0,
        "min_size": 1,
        "seed": 0,
    }
    text = ";".join(f"{name}={value}" for name, value in settings.items())
    return f"{text}\n{server.table('replay').signature.encode()}".encode()


def hello(session: Session, nonce: bytes) -> tuple[int, int, bytes]:
    """-> instance, whether a token is required, the server's nonce."""
    (reply,) = replies(session.receive(frame(HELLO, payload=nonce)))
    assert reply.status == OK
    instance, required = struct.unpack_from("<QB", reply.body)
    return instance, required, reply.body[9:]


def proof(token: bytes, side: bytes, theirs: bytes, ours: bytes) -> bytes:
    return hmac.new(token, b"headrace " + side + theirs + ours, hashlib.sha256).digest()


class TestToken:
    nonce = bytes(range(32))

    def test_each_side_proves_that_it_knows_it(self, server: Server) -> None:
        session = Session(server, token=TOKEN)
        instance, required, theirs = hello(session, self.nonce)
        assert (instance, required, len(theirs)) == (server.instance, 1, 32)
        (reply,) = replies(session.receive(frame(AUTHENTICATE, payload=proof(TOKEN, b"client", theirs, self.nonce))))
        assert reply.status == OK
        assert reply.body == proof(TOKEN, b"server", self.nonce, theirs)
        (reply,) = replies(session.receive(frame(SIGNATURE_TYPE, "replay")))
        assert reply.status == OK

    def test_no_token_is_requested_if_none_is_set(self, server: Server) -> None:
        session = Session(server)
        assert hello(session, self.nonce)[:2] == (server.instance, 0)
        (reply,) = replies(session.receive(frame(SIGNATURE_TYPE, "replay")))
        assert reply.status == OK

    @pytest.mark.parametrize("kind", [SIGNATURE_TYPE, INSERT, PUBLISH, STATS, DROP, AUTHENTICATE, 99])
    def test_authentication_comes_first(self, server: Server, kind: int) -> None:
        session = Session(server, token=TOKEN)
        (reply,) = replies(session.receive(frame(kind, "" if kind in UNNAMED else "replay", bytes(32))))
        assert reply.status not in {OK, NOTHING}
        assert session.closing

    def test_a_wrong_proof_closes(self, server: Server) -> None:
        session = Session(server, token=TOKEN)
        theirs = hello(session, self.nonce)[2]
        wrong = proof(TOKEN[::-1], b"client", theirs, self.nonce)
        (reply,) = replies(session.receive(frame(AUTHENTICATE, payload=wrong)))
        assert reply.status == REFUSED
        assert session.closing
        assert session.receive(frame(SIGNATURE_TYPE, "replay")) == b""

    def test_a_proof_is_valid_for_one_session(self, server: Server) -> None:
        first, second = Session(server, token=TOKEN), Session(server, token=TOKEN)
        theirs = hello(first, self.nonce)[2]
        assert hello(second, self.nonce)[2] != theirs
        replayed = frame(AUTHENTICATE, payload=proof(TOKEN, b"client", theirs, self.nonce))
        (reply,) = replies(second.receive(replayed))
        assert reply.status == REFUSED

    def test_unauthenticated_peers_can_send_little(self, server: Server) -> None:
        session = Session(server, token=TOKEN)
        (reply,) = replies(session.receive(HEADER.pack(MAGIC, VERSION, INSERT, 0, 1, 1025)))
        assert reply.status == REFUSED
        assert session.closing

    @pytest.mark.parametrize("token", [b"", b"fifteen letters", b"x" * 4097])
    def test_its_length_is_bounded(self, server: Server, token: bytes) -> None:
        with pytest.raises(errors.ConfigError) as raised:
            Session(server, token=token)
        assert token.decode() not in str(raised.value) or not token


@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_random_bytes_get_complete_replies(data: bytes, cut: int) -> None:
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
