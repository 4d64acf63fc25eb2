"""Reverb's side of benchmarks/reverb.py; runs in Reverb's environment, without Headrace.

python reverb_peer.py serve CAPACITY: a server with a prioritized table; prints its port, and serves until its input
ends.

python reverb_peer.py client PORT RECORDING CHUNK_FRAMES: executes commands, one per line, and answers each with the
seconds that it took. "insert COUNT IN_FLIGHT" writes transitions in chunks of CHUNK_FRAMES frames, with IN_FLIGHT of
them unconfirmed. "sample COUNT SAMPLERS WORKERS IN_FLIGHT" takes batches from SAMPLERS parallel data sets, each with
WORKERS workers, each with IN_FLIGHT transitions in flight.
RECORDING is an .npz with frame [T + 1, 84, 84], action [T], reward [T] of one long episode.
"""

import itertools
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import reverb

_STACK = 4
_N_STEP = 3
_BATCH = 512
_SPAN = _STACK + _N_STEP  # frames per transition
_TABLE = "replay"
_PRIORITY_EXPONENT = 0.6


def _serve(capacity: int) -> None:
    stack = tf.TensorSpec([_STACK, 84, 84], tf.uint8)
    table = reverb.Table(
        name=_TABLE,
        sampler=reverb.selectors.Prioritized(_PRIORITY_EXPONENT),
        remover=reverb.selectors.Fifo(),
        max_size=capacity,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature={
            "observation": stack,
            "next_observation": stack,
            "action": tf.TensorSpec([1], tf.int64),
            "reward": tf.TensorSpec([_N_STEP], tf.float32),
        },
    )
    server = reverb.Server([table])
    print(server.port, flush=True)
    sys.stdin.read()
    server.stop()


class _Client:
    def __init__(self, port: int, recording: str, chunk_frames: int) -> None:
        self._address = f"127.0.0.1:{port}"
        self._client = reverb.Client(self._address)
        with np.load(recording) as arrays:
            self._steps = itertools.cycle(
                zip(arrays["frame"][:-1], arrays["action"], arrays["reward"].astype(np.float32), strict=True)
            )
        kept = max(_SPAN, 2 * chunk_frames)
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=kept)
        for column in ("frame", "action", "reward"):
            self._writer.configure((column,), num_keep_alive_refs=kept, max_chunk_length=chunk_frames)
        self._batches: dict[tuple[int, ...], Iterator[Any]] = {}

    def insert(self, count: int, in_flight: int) -> float:
        """Writes steps, each frame once, with an n-step transition for each; all are stored when it returns."""
        begin = time.perf_counter()
        done = 0
        while done < count:
            frame, action, reward = next(self._steps)
            self._writer.append({"frame": frame, "action": action, "reward": reward})
            if self._writer.episode_steps < _SPAN:
                continue
            history = self._writer.history
            first = -_N_STEP - 1  # row of s_t's newest frame
            self._writer.create_item(
                table=_TABLE,
                priority=1.0 + done % 7,
                trajectory={
                    "observation": history["frame"][-_SPAN:-_N_STEP],
                    "next_observation": history["frame"][-_STACK:],
                    "action": history["action"][first : first + 1],
                    "reward": history["reward"][first:-1],
                },
            )
            self._writer.flush(block_until_num_items=in_flight)
            done += 1
        self._writer.flush()
        return time.perf_counter() - begin

    def sample(self, count: int, *settings: int) -> float:
        """Takes batches of 512 as fast as possible, after a warm-up."""
        if settings not in self._batches:
            self._batches.clear()  # one at a time
            self._batches[settings] = self._sampling(*settings)
        batches = self._batches[settings]
        for _ in range(6):
            next(batches)
        begin = time.perf_counter()
        for _ in range(count):
            next(batches).data["observation"].numpy()  # no copy: the tensor's own memory as an array
        return time.perf_counter() - begin

    def _sampling(self, samplers: int, workers: int, in_flight: int) -> Iterator[Any]:
        def batched(_: Any) -> Any:
            dataset = reverb.TrajectoryDataset.from_table_signature(
                server_address=self._address,
                table=_TABLE,
                max_in_flight_samples_per_worker=in_flight,
                num_workers_per_iterator=workers,
            )
            return dataset.batch(_BATCH, drop_remainder=True)

        side_by_side = tf.data.Dataset.range(samplers).interleave(
            batched, cycle_length=samplers, num_parallel_calls=samplers, deterministic=False
        )
        return iter(side_by_side.prefetch(4))


def _obey(port: int, recording: str, chunk_frames: int) -> None:
    client = _Client(port, recording, chunk_frames)
    print(version("dm-reverb"), flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        call = client.sample if command == "sample" else client.insert
        print(call(*map(int, numbers)), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(int(sys.argv[2]))
    else:
        _obey(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
