"""The process of the learner: DQN updates of the Nature network on batches from the variant's source.

The sources of batches are the only difference between the variants. It publishes a policy, says "open", warms up, says
"ready", learns, and answers with its measurements in the window and the rate of one large pull, for which it waits for
one more line.
"""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from headrace._native import Table as NativeTable
from headrace.algorithms.dqn import DQN
from headrace.algorithms.engine import limit_torch_threads
from headrace.errors import ClosedError, LaunchError
from headrace.networks.policy_graph import PolicyGraph
from headrace.replay import BatchBuffer, BatchesAhead, ReplayTable
from headrace.replay.remote import connect
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.learner import Learner
from headrace.roles.publisher import Publisher, graph_blobs
from headrace.servers.base import RunServer
from headrace.servers.connect import open_server
from headrace.studies.in_network.case import (
    DISCOUNT,
    EXPERIENCE,
    LEARNER_PHASES,
    N_STEP,
    SPEC,
    LearnerSettings,
    Variant,
    count_steps,
    signature,
)
from headrace.studies.processes import Window, answer, received
from headrace.types import Batch

__all__ = ["PullRate", "Source", "open_source"]

_CAPACITY = 20_000
_PRIORITY_EXPONENT, _IMPORTANCE_EXPONENT = 0.6, 0.4
_CREDIT = 4  # batches ready or in flight
_LIMIT_SECONDS = 60.0
_POLL_SECONDS = 0.001
_WARM_UP_UPDATES = 3
_MIN_SIZE = 3000  # transitions in the table at the first update
_PUBLISH_PERIOD = 20  # updates


class PullRate(NamedTuple):
    """Rate of one large pull of experience."""

    transitions: float
    wire_bytes: float
    """Bytes per second. Chunks hold each frame about once; batches hold all frames of each transition."""


class _Pulled:
    """Pulls all new experience, stores it and samples, sequentially in the learner's thread."""

    def __init__(self, drain: Callable[[], list[bytes]], table: NativeTable, batch_size: int) -> None:
        self._drain = drain
        self.table = table
        """The table in this process, which takes the priorities."""
        self._buffer = BatchBuffer(signature(), batch_size)

    def next(self, clock: PhaseClock, timeout_seconds: float) -> Batch | None:
        """The next batch; enters the phases that it takes: pull, store, sample."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            clock.enter("pull")
            chunks = self._drain()
            clock.enter("store")
            for chunk in chunks:
                self.table.insert(chunk)
            clock.enter("sample")
            if self.table.sample_into(self._buffer.view, _IMPORTANCE_EXPONENT, 0.0):
                return self._buffer.arrays
        return None

    def pull(self, count_bytes: int) -> PullRate:
        """Pulls the chunks that the actors sent for it, until this many bytes have arrived; the last call."""
        chunks: list[bytes] = []
        started = time.perf_counter()
        while (moved := sum(map(len, chunks))) < count_bytes:
            if time.perf_counter() > started + _LIMIT_SECONDS:
                raise LaunchError(
                    f"{moved} bytes of experience came in {_LIMIT_SECONDS:g} s; {count_bytes} were left there"
                )
            chunks += self._drain()
        seconds = time.perf_counter() - started
        return PullRate(sum(map(count_steps, chunks)) / seconds, moved / seconds)

    def close(self) -> None:
        """Does nothing: there are no threads."""


class _PulledAhead(_Pulled):
    """The same, but one thread pulls and stores, and another one samples ahead."""

    def __init__(self, drain: Callable[[], list[bytes]], table: NativeTable, batch_size: int) -> None:
        super().__init__(drain, table, batch_size)
        self._batches = BatchesAhead(table, batch_size, _IMPORTANCE_EXPONENT, _CREDIT)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="puller", daemon=True)
        self._thread.start()

    def next(self, clock: PhaseClock, timeout_seconds: float) -> Batch | None:
        """The next batch."""
        try:
            batch = self._batches.next(timeout_seconds)
        except ClosedError:
            if self._error:
                raise self._error from None
            raise
        if self._error:
            raise self._error
        return batch

    def pull(self, count_bytes: int) -> PullRate:
        """Returns nan: the thread has already taken the chunks as the baseline does."""
        return PullRate(math.nan, math.nan)

    def close(self) -> None:
        """Ends both threads."""
        self._stop.set()
        self._thread.join()
        self._batches.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                chunks = self._drain()
                for chunk in chunks:
                    self.table.insert(chunk)
                if not chunks:
                    self._stop.wait(_POLL_SECONDS)
        except BaseException as error:  # raised later in the learner's thread
            self._error = error
            self.table.close()


class _Streamed:
    """The server samples and keeps batches in flight."""

    def __init__(self, server: RunServer, table: ReplayTable, batch_size: int) -> None:
        self._endpoint = server.endpoint
        self.table = table
        """The table in the server, whose answer to priorities is not awaited."""
        self._batch_size = batch_size
        self._batches = table.batches_ahead(batch_size, _IMPORTANCE_EXPONENT, _CREDIT)

    def next(self, clock: PhaseClock, timeout_seconds: float) -> Batch | None:
        """The next batch."""
        return self._batches.next(timeout_seconds)

    def pull(self, count_bytes: int) -> PullRate:
        """Requests one batch at a time until this many bytes have come; the last call."""
        self._batches.close()
        endpoint = self._endpoint
        buffer = BatchBuffer(signature(), self._batch_size)
        moved = sum(field.nbytes for field in buffer.arrays)
        times = max(1, count_bytes // moved)
        with contextlib.closing(connect(endpoint.address, token_file=endpoint.token_file or None)) as connection:
            table = connection.table(endpoint.name(REPLAY.name))
            table.sample_into(buffer, _IMPORTANCE_EXPONENT, _LIMIT_SECONDS)  # touches its memory for the first time
            started = time.perf_counter()
            for _ in range(times):
                table.sample_into(buffer, _IMPORTANCE_EXPONENT, _LIMIT_SECONDS)
            seconds = time.perf_counter() - started
        return PullRate(times * self._batch_size / seconds, times * moved / seconds)

    def close(self) -> None:
        """Closes the connection for batches."""
        self._batches.close()


Source = _Pulled | _Streamed
"""Batches for one learner thread."""


def open_source(variant: Variant, server: RunServer, batch_size: int, min_size: int) -> Source:
    """The source of a variant; the first batch comes after `min_size` transitions."""
    options: dict[str, Any] = {
        "capacity": _CAPACITY,
        "priority_exponent": _PRIORITY_EXPONENT,
        "min_size": min_size,
        "seed": 0,
    }
    if variant == "server":
        return _Streamed(server, server.add_table(REPLAY.name, signature(), fresh=True, **options), batch_size)
    pulled = _Pulled if variant != "redis-ahead" else _PulledAhead
    return pulled(partial(server.drain, EXPERIENCE), NativeTable(signature(), **options), batch_size)


def _update(learner: Learner) -> dict[str, float]:
    """Makes one update; returns the seconds of each phase. Raises LaunchError if there is no batch in time."""
    before = dict(learner.clock.seconds)
    if not learner.step(_LIMIT_SECONDS):
        raise LaunchError(f"no batch in {_LIMIT_SECONDS:g} s")
    return {phase: learner.clock.seconds[phase] - before[phase] for phase in LEARNER_PHASES}


def _measure(learner: Learner) -> dict[str, Any]:
    """Learns until the end of the window; returns the measurements in it."""
    window = received(Window)
    learner.clock.enter("other")
    updates: list[dict[str, float]] = []
    started, begun = time.perf_counter(), False
    while (now := time.monotonic()) < window.end:
        if not begun and now >= window.begin:
            updates, started, begun = [], time.perf_counter(), True
        updates.append(_update(learner))
    return {
        "seconds": time.perf_counter() - started,
        "updates": {phase: [spent[phase] for spent in updates] for phase in LEARNER_PHASES},
    }


def _run() -> None:
    settings = received(LearnerSettings)
    config = DQN(
        network="nature", hidden=(512,), dueling=True, n_step=N_STEP, discount=DISCOUNT,
        batch_size=settings.batch_size, publish_period=_PUBLISH_PERIOD,
    )  # fmt: skip
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(contextlib.closing(open_server(settings.endpoint)))
        source = open_source(settings.variant, server, settings.batch_size, _MIN_SIZE)
        ends.callback(source.close)
        updater = config.make_updater(SPEC, "cpu", 0)
        limit_torch_threads(1)
        graph, clock = PolicyGraph(updater.architecture), PhaseClock(LEARNER_PHASES)
        publisher = ends.enter_context(contextlib.closing(Publisher(server, graph_blobs(graph, POLICY))))
        priorities = source.table.update_priorities
        learner = Learner(updater, partial(source.next, clock), priorities, publisher, _PUBLISH_PERIOD)
        learner.clock = clock
        learner.publish()
        answer("open")
        for _ in range(_WARM_UP_UPDATES):
            _update(learner)
        answer("ready")
        record = _measure(learner)
        sys.stdin.readline()
        publisher.close()
        record["parameter_bytes"] = len(graph.serialize(updater.weights()))
        record["pull"] = source.pull(settings.pull_bytes)._asdict()
        answer(record)


if __name__ == "__main__":
    _run()
