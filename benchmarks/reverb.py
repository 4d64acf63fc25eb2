"""The server against Reverb's, each in a separate process: sampling batches of 512 x 56 kB, and inserting.

Reverb is tied to one version of TensorFlow, so it needs a separate environment: --python PATH or
$HEADRACE_REVERB_PYTHON names its interpreter (benchmarks/README.md says how to make one). Without it the benchmark
prints a line and ends with status 2.
"""

import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple, TextIO

import numpy as np

from benchmarks.breakout import play_breakout
from benchmarks.experience import CHUNK_STEPS, DISCOUNT, N_STEP, Steps, write_chunk
from benchmarks.measure import Row, faster, make_parser, report, require, run, take_turns, warn_if_busy
from benchmarks.standing import standing_server
from headrace._native import BatchStream, Client
from headrace.replay import ChunkWriter, Signature

_VARIABLE = "HEADRACE_REVERB_PYTHON"
_STACK = 4
_SIGNATURE = Signature((84, 84), "uint8", stack=_STACK)
_STORED = 20_000
_RECORDED = 4_000
_BATCH = 512
_BATCH_BYTES = _BATCH * 2 * _STACK * 84 * 84
_BATCHES = 20  # of one turn
_PAUSE_SECONDS = 1.0
_INSERTS = 5_000
_CREDIT = 4
_CHUNK_FRAMES = (1, 2, 4, 8, 16, 50)  # tried with Reverb; ours is compared with its fastest
_SAMPLERS, _WORKERS, _IN_FLIGHT = (1, 2), (1, 2, 4), (_BATCH // 4, _BATCH, 2 * _BATCH)
_IN_FLIGHT_INSERTS = (50, 200, 1_000)
_TRIED = 2_000  # transitions of such a trial, ...
_TRIED_BATCHES = 6  # ... and batches


class Reverb:
    """A client of Reverb's server, which executes one command at a time; see reverb_peer.py."""

    def __init__(self, client: "subprocess.Popen[str]", said: Path) -> None:
        self._client = client
        self._said = said
        self.name = f"Reverb {_answer(client, said)}"

    def seconds(self, command: str, *numbers: int) -> float:
        """Seconds that a command took."""
        assert self._client.stdin is not None
        print(command, *numbers, file=self._client.stdin, flush=True)
        return float(_answer(self._client, self._said))


@contextmanager
def _reverb(python: str, recording: Path, chunk_frames: int) -> Iterator[Reverb]:
    # -P: this folder is not searched for modules, because this file would be found in place of Reverb.
    peer = [python, "-P", str(Path(__file__).with_name("reverb_peer.py"))]
    said = recording.with_suffix(".err")
    with said.open("w") as errors:
        server = _start([*peer, "serve", str(_STORED)], errors)
        client = None
        try:
            client = _start([*peer, "client", _answer(server, said), str(recording), str(chunk_frames)], errors)
            yield Reverb(client, said)
        finally:
            for process in (client, server):
                if process is not None:
                    process.kill()
                    process.wait()


def _start(command: list[str], errors: TextIO) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)


def _answer(process: "subprocess.Popen[str]", said: Path) -> str:
    """The process's next line; raises RuntimeError, with its last line, if it has ended."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"Reverb has ended: {(said.read_text().splitlines() or ['it said nothing'])[-1]}")
    return line


def measure_reverb(python: str) -> list[Row]:
    """Compares both with the same frames, the same n-step transitions, one writer and one learner."""
    steps = play_breakout(_RECORDED, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "breakout.npz"
        np.savez(recording, frame=steps.frame, action=steps.action, reward=steps.reward)
        best = _fastest(python, recording)
        with (
            _reverb(python, recording, best.sample_chunk) as sampling,
            _reverb(python, recording, best.insert_chunk) as inserting,
            standing_server() as addresses,
        ):
            return _compare(sampling, inserting, best, addresses, steps)


class _Fastest(NamedTuple):
    """Reverb's fastest settings, for sampling and inserting separately."""

    sample_chunk: int
    sampling: tuple[int, int, int]  # samplers, workers of each, transitions in flight of each worker
    insert_chunk: int
    in_flight_inserts: int


def _fastest(python: str, recording: Path) -> _Fastest:
    """Tries Reverb's settings on a small table.

    It tries every chunk length with every setting for inserts and one for sampling, then every setting for sampling
    with the two chunk lengths that were sampled fastest.
    """
    inserted: dict[tuple[int, int], float] = {}
    sampled: dict[int, float] = {}
    for chunk in _CHUNK_FRAMES:
        with _reverb(python, recording, chunk) as peer:
            for in_flight in _IN_FLIGHT_INSERTS:
                inserted[chunk, in_flight] = min(peer.seconds("insert", _TRIED, in_flight) for _ in range(2))
            sampled[chunk] = min(peer.seconds("sample", _TRIED_BATCHES, 1, 2, 2 * _BATCH) for _ in range(2))
    ways: dict[tuple[int, tuple[int, int, int]], float] = {}
    for chunk in sorted(sampled, key=lambda each: sampled[each])[:2]:
        with _reverb(python, recording, chunk) as peer:
            peer.seconds("insert", 3 * _TRIED, _IN_FLIGHT_INSERTS[1])
            for way in itertools.product(_SAMPLERS, _WORKERS, _IN_FLIGHT):
                ways[chunk, way] = peer.seconds("sample", _TRIED_BATCHES, *way)
    return _Fastest(*min(ways, key=lambda each: ways[each]), *min(inserted, key=lambda each: inserted[each]))


def _compare(sampling: Reverb, inserting: Reverb, best: _Fastest, addresses: dict[str, str], steps: Steps) -> list[Row]:
    client = Client(addresses["tcp"])
    client.open_table("replay", _SIGNATURE, fresh=True, capacity=_STORED, seed=0)
    ours = _Inserting(client, steps)
    ours.insert(_STORED + CHUNK_STEPS)
    for peer in (sampling, inserting):
        peer.seconds("insert", _STORED, best.in_flight_inserts)
    streams = {
        transport: BatchStream(address, "replay", _BATCH, 0.4, credit=_CREDIT)
        for transport, address in addresses.items()
    }
    turns: dict[str, Callable[[], float]] = {
        "tcp": lambda: _streaming(streams["tcp"]) / _BATCHES,
        "unix": lambda: _streaming(streams["unix"]) / _BATCHES,
        "peer sample": lambda: sampling.seconds("sample", _BATCHES, *best.sampling) / _BATCHES,
        "insert": lambda: ours.insert(_INSERTS) / _INSERTS,
        "peer insert": lambda: inserting.seconds("insert", _INSERTS, best.in_flight_inserts) / _INSERTS,
    }
    times = take_turns({name: _settled(turn) for name, turn in turns.items()}, repeats=5)
    for stream in streams.values():
        stream.close()
    samplers, workers, in_flight = best.sampling
    sampler = f"{sampling.name}, chunks of {best.sample_chunk}, {samplers} x {workers} workers, {in_flight} in flight"
    writer = f"{inserting.name}, chunks of {best.insert_chunk}, {best.in_flight_inserts} in flight"
    return [
        _sampled("sampled, tcp", times["tcp"], sampler, times["peer sample"], 1.5),
        _sampled("sampled, same host (ours: shared memory)", times["unix"], sampler, times["peer sample"], 4),
        _inserted("inserted from one writer, tcp", times["insert"], writer, times["peer insert"], 4),
    ]


class _Inserting:
    """One Python writer of one long episode, over a connection."""

    def __init__(self, client: Client, steps: Steps) -> None:
        self._client = client
        self._steps = steps
        self._writer = ChunkWriter(_SIGNATURE, n_step=N_STEP, discount=DISCOUNT, chunk_steps=CHUNK_STEPS)
        self._writer.start(steps.frame[0])
        self._places = itertools.cycle(range(0, len(steps.action) - CHUNK_STEPS + 1, CHUNK_STEPS))

    def insert(self, count: int) -> float:
        """Writes and sends this many steps; returns the seconds."""
        begin = perf_counter()
        for _ in range(count // CHUNK_STEPS):
            place = next(self._places)
            for chunk in write_chunk(self._writer, self._steps, place, place + CHUNK_STEPS):
                self._client.insert("replay", chunk)
        return perf_counter() - begin


def _settled(turn: Callable[[], float]) -> Callable[[], float]:
    """A turn after a pause, so that prefetching from the previous turns does not affect it."""

    def begin() -> float:
        sleep(_PAUSE_SECONDS)
        return turn()

    return begin


def _streaming(stream: BatchStream) -> float:
    """Seconds for the batches of a turn, after all batches that were already in flight are taken."""
    for _ in range(2 * _CREDIT):
        stream.next()
    begin = perf_counter()
    for _ in range(_BATCHES):
        stream.next()
    return perf_counter() - begin


def _sampled(name: str, ours: float, peer_name: str, peer: float, at_least: float) -> Row:
    row = faster(name, ours, peer_name, peer, at_least)
    return row._replace(unit="GB/s", ours=_BATCH_BYTES / ours / 1e9, peer=_BATCH_BYTES / peer / 1e9)


def _inserted(name: str, ours: float, peer_name: str, peer: float, at_least: float) -> Row:
    return faster(name, ours, peer_name, peer, at_least)._replace(unit="transitions/s", ours=1 / ours, peer=1 / peer)


def main() -> int:
    """Measures, prints and writes results/reverb.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--python", default=os.environ.get(_VARIABLE, ""), help="interpreter that has dm-reverb")
    python = parser.parse_args().python
    require("headrace", "ale_py", "cv2")
    if not python:
        print(f"benchmarks: not measured: no Reverb; --python or ${_VARIABLE} names an interpreter that has it")
        return 2
    warn_if_busy()
    return report("reverb", measure_reverb(python))


if __name__ == "__main__":
    run(main)
