"""A process with one node's share of connections.py's actors: their connections and requests, without environments.

python -m benchmarks.connections_actors OPTIONS, where OPTIONS is JSON of Options. It opens all connections, prints
the seconds that this took, reads JSON of Plan from its input and, after the plan's end, prints JSON of Outcome.
"""

import heapq
import json
import resource
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field

from benchmarks.experience import CHUNK_STEPS, N_STEP, chunks_of, make_steps, sent_as
from headrace._native import Signature
from headrace.launch.relay import Relay
from headrace.roles.clock import ACTOR_PHASES
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.messages import REPORTS, Report
from headrace.servers import Endpoint, connect_role

__all__ = ["CONNECTIONS", "REPORT_SECONDS", "SIGNATURE", "Options", "Outcome", "Plan", "connection_seconds"]

SIGNATURE = Signature((8,), "float32")  # LunarLander-v3's
CONNECTIONS = 3
"""Of each actor: experience, reports, policies."""
REPORT_SECONDS = 0.1
"""Period of an actor that makes progress."""
_STACK_BYTES = 512 << 10  # of a thread
_REPORT: Report = {
    "role": "actor",
    "index": 0,
    "generation": 0,
    "phase": "environment",
    "stalled_seconds": 0.0123456789,
    "run_id": 16 * "0",
    "writer": 16 * "0",
    "acted": {
        "steps": 1_234_567,
        "episodes": 12_345,
        "seconds": dict.fromkeys(ACTOR_PHASES, 123.45678901234),
        "returns": [],
    },
    "refreshed": {
        "count": 1234,
        "seconds": dict.fromkeys(("fetch", "deserialize", "load"), 1.2345678901234),
        "latency_seconds": 0.0123456789,
    },
}


@dataclass(frozen=True)
class Options:
    """The task of one process."""

    address: str
    token: str
    first: int  # number of its first actor
    actors: int
    all_actors: int
    frames_per_second: float  # of each actor
    pull_seconds: float
    relayed: bool  # policies come from a relay in this process, as they do from the relay of `headrace actor`


@dataclass(frozen=True)
class Plan:
    """Times of time.monotonic(), which all processes share."""

    begin: float
    counted: float  # requests due from here to the end are counted
    end: float


@dataclass
class Outcome:
    """The results between `counted` and the end; times are in seconds."""

    cpu_seconds: float = 0.0
    chunks: int = 0  # stored before the end
    reports: int = 0  # received before the end
    insert: list[float] = field(default_factory=list)  # from each call to its answer
    delay: list[float] = field(default_factory=list)  # of each insert, from when it was due to its answer
    fetch: list[float] = field(default_factory=list)  # of each poll that brought a policy
    arrivals: list[list[tuple[float, int]]] = field(default_factory=list)  # of each actor: time and version of policies


class _Actor:
    """An actor's connections; one thread sends what three threads of an actor send."""

    def __init__(self, options: Options, number: int, policy_endpoint: Endpoint, endpoint: Endpoint) -> None:
        self._server, self._reports, self._policies = (
            connect_role(each) for each in (endpoint, endpoint, policy_endpoint)
        )
        steps = make_steps(CHUNK_STEPS + N_STEP, (8,), "float32", seed=number)
        self._chunk = bytearray(chunks_of(SIGNATURE, steps)[0])
        self._report = json.dumps({**_REPORT, "index": number}).encode()
        self._number = number
        self._share = number / options.all_actors
        self._periods = (CHUNK_STEPS / options.frames_per_second, REPORT_SECONDS, options.pull_seconds)
        self._sequence = self._version = 0
        self._arrivals: list[tuple[float, int]] = []

    def run(self, plan: Plan, outcome: Outcome, lock: threading.Lock) -> None:
        """Sends chunks, reports and polls when they are due; adds its results."""
        due = [(plan.begin + period * self._share, kind) for kind, period in enumerate(self._periods)]
        seconds: tuple[list[float], list[float], list[float]] = ([], [], [])
        delay: list[float] = []
        chunks = reports = 0
        while True:
            at, kind = due[0]
            begin = max(time.monotonic(), at)
            if begin >= plan.end:
                break
            time.sleep(max(at - time.monotonic(), 0.0))
            begin = time.monotonic()
            new = (self._push, self._send, self._poll)[kind]()
            end = time.monotonic()
            heapq.heapreplace(due, (at + self._periods[kind], kind))
            if at >= plan.counted and new:
                seconds[kind].append(end - begin)
                if kind == 0:
                    delay.append(end - at)
                chunks += kind == 0 and end <= plan.end
                reports += kind == 1 and end <= plan.end
        with lock:
            outcome.chunks += chunks
            outcome.reports += reports
            outcome.insert += seconds[0]
            outcome.delay += delay
            outcome.fetch += seconds[2]
            outcome.arrivals.append(self._arrivals)

    def _push(self) -> bool:
        self._sequence += 1
        self._server.insert(REPLAY.name, bytes(sent_as(self._chunk, self._number + 1, self._sequence)))
        return True

    def _send(self) -> bool:
        self._reports.put(REPORTS, self._report)
        return True

    def _poll(self) -> bool:
        """Fetches the news and, if there are any, the policy; returns whether there were."""
        if self._policies.fetch(POLICY.news, self._version) is None:
            return False
        found = self._policies.fetch(POLICY.name, self._version)
        if found is None:
            return False
        self._version = found[0]
        self._arrivals.append((time.monotonic(), found[0]))
        return True

    def close(self) -> None:
        for server in (self._server, self._reports, self._policies):
            server.close()


def connection_seconds(line: str) -> float:
    """Reads the first line of such a process; raises RuntimeError for any other line."""
    try:
        return float(line)
    except ValueError:
        raise RuntimeError(f"benchmarks.connections_actors printed {line!r}; seconds were expected") from None


def _run(options: Options) -> Outcome:
    endpoint = Endpoint(options.address, token=options.token, reconnect_seconds=60.0)
    relay = closing(Relay(connect_role(endpoint), POLICY)) if options.relayed else nullcontext()
    outcome, lock = Outcome(), threading.Lock()
    threading.stack_size(_STACK_BYTES)
    with relay as found, ThreadPoolExecutor(options.actors) as threads:
        policy_endpoint = found.endpoint if found else endpoint
        begin = time.monotonic()
        numbers = range(options.first, options.first + options.actors)
        actors = list(threads.map(lambda number: _Actor(options, number, policy_endpoint, endpoint), numbers))
        print(time.monotonic() - begin, flush=True)
        plan = Plan(**json.loads(sys.stdin.readline()))
        running = [threads.submit(actor.run, plan, outcome, lock) for actor in actors]
        time.sleep(max(plan.counted - time.monotonic(), 0.0))
        cpu = time.process_time()
        time.sleep(max(plan.end - time.monotonic(), 0.0))
        outcome.cpu_seconds = time.process_time() - cpu
        for each in running:
            each.result()
        if found:
            found.check()
        for actor in actors:
            actor.close()
    return outcome


def main() -> None:
    """Runs the task in the argument and prints its results."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    print(json.dumps(asdict(_run(Options(**json.loads(sys.argv[1]))))))


if __name__ == "__main__":
    main()
