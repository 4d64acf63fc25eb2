"""The server over its sockets against plain C over the same sockets: small round trips, and batches of 29 MB."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps
from benchmarks.limits import BareConnection, bare_connection, random_gather
from benchmarks.measure import Row, at_most, faster, make_parser, report, require, run, take_turns, warn_if_busy
from benchmarks.standing import standing_server
from headrace._native import BatchStream, Client
from headrace.replay import BatchBuffer, Signature

_FRAME = (84, 84)
_STACK = 4
_SIGNATURE = Signature(_FRAME, "uint8", stack=_STACK)
_STORED = 20_000
_BATCH = 512
_BATCH_BYTES = _BATCH * 2 * _STACK * _FRAME[0] * _FRAME[1]
_CREDIT = 4
_BUFFER_BYTES = 1 << 20  # of a loopback socket, as native/io/tcp_socket.cc requests
_TRIPS = 2000  # of one turn
_BATCHES = 24
_HEADER_BYTES = 24
_NAME = "policy"
_MESSAGE = bytes(64)
_FETCH_BYTES = _HEADER_BYTES + 2 + len(_NAME) + 8
_PUT_BYTES = _HEADER_BYTES + 2 + len(_NAME) + 16 + len(_MESSAGE)


def measure_network() -> list[Row]:
    """Compares each transport with plain C; the server is `headrace serve`."""
    rows = []
    with standing_server() as addresses:
        stored_bytes = _fill(Client(addresses["unix"]))
        for transport, address in addresses.items():
            with bare_connection(transport) as bare:
                rows += _round_trips(transport, Client(address), bare)
        with bare_connection("tcp") as plain, bare_connection("tcp", _BUFFER_BYTES) as buffered:
            rows += _streams(addresses, plain, buffered, stored_bytes)
    return rows


def _fill(client: Client) -> int:
    """Creates and fills the table; returns its bytes."""
    client.open_table("replay", _SIGNATURE, fresh=True, capacity=_STORED, seed=0)
    for chunk in chunks_of(_SIGNATURE, make_steps(_STORED + CHUNK_STEPS + N_STEP, _FRAME, "uint8", seed=0)):
        client.insert("replay", chunk)
    client.publish(_NAME, b"weights")
    return int(client.stats()["tables"]["replay"]["used_bytes"])


def _round_trips(transport: str, client: Client, connection: BareConnection) -> list[Row]:
    """Small requests, and plain messages of the same size."""

    def put() -> None:
        client.put(_NAME, _MESSAGE)

    def bare(trips: Callable[[int, int, int], None], request_bytes: int) -> Callable[[], float]:
        return lambda: _seconds(lambda: trips(request_bytes, _HEADER_BYTES, _TRIPS)) / _TRIPS

    turns = {
        "fetch": lambda: _seconds_each(lambda: client.fetch(_NAME, 1), _TRIPS),
        "put": lambda: _seconds_each(put, _TRIPS),
    }
    for key, request_bytes in (("fetch", _FETCH_BYTES), ("put", _PUT_BYTES)):
        turns[f"bare {key}"] = bare(connection.round_trips, request_bytes)
        turns[f"bare {key}, one core"] = bare(connection.round_trips_on_one_core, request_bytes)
    microseconds = {name: 1e6 * seconds for name, seconds in take_turns(turns).items()}
    rows = []
    for key, what in (("fetch", "fetch, nothing newer"), ("put", f"put {len(_MESSAGE)} bytes")):
        placed, one_core = microseconds[f"bare {key}"], microseconds[f"bare {key}, one core"]
        peer_name = "C ping-pong, on one core" if one_core < placed else "C ping-pong, as placed"
        peer = min(placed, one_core)
        rows.append(at_most(f"{transport}: {what}", "us", microseconds[key], 2, peer_name, peer, scale=True))
    return rows


def _streams(
    addresses: dict[str, str], plain: BareConnection, buffered: BareConnection, stored_bytes: int
) -> list[Row]:
    """Batches in flight back to back, and one request at a time; the C stream with both kinds of buffers."""
    streams = {
        transport: BatchStream(address, "replay", _BATCH, 0.4, credit=_CREDIT)
        for transport, address in addresses.items()
    }
    clients = {transport: Client(address) for transport, address in addresses.items()}
    buffer = BatchBuffer(_SIGNATURE, _BATCH)
    received = [np.zeros(_BATCH_BYTES, np.uint8) for _ in range(_CREDIT)]
    gather = random_gather(
        stored_bytes, _FRAME[0] * _FRAME[1], _STACK, buffer.arrays.observation, buffer.arrays.next_observation
    )

    def bare(connection: BareConnection) -> Callable[[], float]:
        return lambda: _seconds(lambda: connection.receive(received, _BATCHES)) / _BATCHES

    def sample(transport: str) -> Callable[[], float]:
        return lambda: _seconds_each(lambda: clients[transport].sample_into("replay", buffer.view, 0.4), _BATCHES)

    times = take_turns(
        {
            "tcp": lambda: _streaming(streams["tcp"]),
            "plain": bare(plain),
            "buffered": bare(buffered),
            "unix": lambda: _streaming(streams["unix"]),
            "gather": lambda: _seconds_each(gather, _BATCHES),
            "tcp, one": sample("tcp"),
            "unix, one": sample("unix"),
        }
    )
    for stream in streams.values():
        stream.close()
    peer = "C stream, buffers as ours" if times["buffered"] < times["plain"] else "C stream, default buffers"
    fastest = min(times["buffered"], times["plain"])
    return [
        _speed("tcp: batches in flight", times["tcp"], peer, fastest, 0.8),
        _speed("unix: batches in flight, shared memory", times["unix"], "C gather", times["gather"], 0.8),
        _speed("tcp: one batch at a time", times["tcp, one"], peer, fastest),
        _speed("unix: one batch at a time", times["unix, one"], "C gather", times["gather"]),
    ]


def _streaming(stream: BatchStream) -> float:
    """Seconds per batch, after all batches that were already in flight are taken."""
    for _ in range(2 * _CREDIT):
        stream.next()
    return _seconds_each(stream.next, _BATCHES)


def _seconds(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return perf_counter() - begin


def _seconds_each(call: Callable[[], object], count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - begin) / count


def _speed(name: str, ours: float, peer_name: str, peer: float, at_least: float | None = None) -> Row:
    """Converts two times to bytes of batches per second."""
    row = faster(name, ours, peer_name, peer, at_least)
    return row._replace(unit="GB/s", ours=_BATCH_BYTES / ours / 1e9, peer=_BATCH_BYTES / peer / 1e9)


def main() -> int:
    """Measures, prints and writes results/network.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace")
    warn_if_busy()
    return report("network", measure_network())


if __name__ == "__main__":
    run(main)
