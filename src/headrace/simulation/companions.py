"""Processes that keep cores busy while something is measured: each makes the turns of a worker without a run."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headrace.algorithms.config import Algorithm
from headrace.algorithms.engine import limit_torch_threads
from headrace.errors import LaunchError
from headrace.launch.child import die_with
from headrace.launch.processes import child_environment
from headrace.servers import Endpoint, connect_role
from headrace.simulation.lone_worker import open_lone_worker

__all__ = ["ROWS", "Companions", "Request", "open_companions"]

ROWS = 16
"""Environments of a worker."""
_READY = "ready"
_END_SECONDS = 5.0
"""Allowed for the end of a process: more than a turn, and the destruction of its environments."""


class Request(NamedTuple):
    """A request as the process that made it has measured it."""

    at: float
    """When it ended, by the machine's monotonic clock."""
    whole: float
    """Its seconds."""
    own: float
    """Processor seconds of the process."""


class Companions(NamedTuple):
    """Running processes. Those with an endpoint fetch its policy after each turn."""

    processes: Sequence[subprocess.Popen[str]]

    def resume(self, count: int) -> None:
        """Lets the first `count` of them go on, and stops the others; raises LaunchError if one has ended."""
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                raise LaunchError("a process that keeps a core busy has ended")
            process.send_signal(signal.SIGCONT if number < count else signal.SIGSTOP)

    def end(self) -> list[Request]:
        """Ends them, and returns the requests that they made; raises LaunchError if one failed."""
        requests = []
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise LaunchError("a process that makes requests has failed")
            requests += [Request(*each) for each in json.loads(line)]
        return requests


@contextlib.contextmanager
def open_companions(
    count: int, environment: str, algorithm: Algorithm, endpoint: Endpoint | None = None, policy: str = ""
) -> Iterator[Companions]:
    """A context in which so many processes make turns; raises LaunchError if one does not start."""
    record: dict[str, Any] = {"environment": environment, "algorithm": algorithm.to_record(), "policy": policy}
    record["parent"] = os.getpid()
    if endpoint is not None:
        record["endpoint"] = dataclasses.asdict(endpoint)
    with contextlib.ExitStack() as ends:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, json.dumps(record)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=child_environment(),
                start_new_session=True,  # as roles: the scheduler treats the processes of a session as a group
            )
            ends.callback(_end, process)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != _READY:
                raise LaunchError("a process that keeps a core busy does not start")
        yield Companions(processes)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process in order, so that its watcher doesn't report it; one that doesn't end in time is killed."""
    with process:  # closes its input, and waits for its end
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> None:
    """Makes turns, and requests if there is an endpoint, until the parent process ends it, or ends itself."""
    record = json.loads(sys.argv[1])
    die_with(record["parent"])  # also while it is stopped
    ended = threading.Event()

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)  # until the parent's end of it is closed
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what an environment prints is no answer
    limit_torch_threads(1)
    role = connect_role(Endpoint(**record["endpoint"])) if "endpoint" in record else None
    requests = []
    with open_lone_worker(record["environment"], Algorithm.from_record(record["algorithm"]), ROWS) as worker:
        print(_READY, file=answers, flush=True)
        while not ended.is_set():
            worker.step()
            if role is not None:
                whole, own = time.perf_counter(), time.thread_time()
                role.fetch(record["policy"])
                own = time.thread_time() - own
                requests.append(Request(time.monotonic(), time.perf_counter() - whole, own))
    print(json.dumps(requests), file=answers, flush=True)


if __name__ == "__main__":
    main()
