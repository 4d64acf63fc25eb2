"""Processes that keep cores busy while something is measured: each makes the turns of a worker without a run."""

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.algorithms.config import Algorithm
from headrace.algorithms.engine import limit_torch_threads
from headrace.errors import LaunchError
from headrace.launch.processes import child_environment
from headrace.servers import Endpoint, connect_role
from headrace.simulation.lone_worker import open_lone_worker

__all__ = ["ROWS", "Companions", "open_companions"]

ROWS = 16
"""Environments of a worker."""
_READY = "ready"


@dataclass(frozen=True)
class Companions:
    """Running processes. Those with an endpoint fetch its policy after each turn."""

    processes: Sequence[subprocess.Popen[str]]
    requests: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of each request, and processor seconds that it took in the process that made it; after end()."""

    def end(self) -> None:
        """Ends them, and collects what they measured; raises LaunchError if one failed."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise LaunchError("a process that makes requests has failed")
            self.requests.extend((whole, own) for whole, own in json.loads(line))


@contextlib.contextmanager
def open_companions(
    count: int, environment: str, algorithm: Algorithm, endpoint: Endpoint | None = None, policy: str = ""
) -> Iterator[Companions]:
    """A context in which so many processes make turns; raises LaunchError if one does not start."""
    record: dict[str, Any] = {"environment": environment, "algorithm": algorithm.to_record(), "policy": policy}
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
            ends.enter_context(process)  # waits for its end
            ends.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != _READY:
                raise LaunchError("a process that keeps a core busy does not start")
        yield Companions(processes)


def main() -> None:
    """Makes turns, and requests if there is an endpoint, until the parent process ends it, or ends itself."""
    record = json.loads(sys.argv[1])
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()  # until the parent's end of it is closed
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    limit_torch_threads(1)
    role = connect_role(Endpoint(**record["endpoint"])) if "endpoint" in record else None
    requests = []
    with open_lone_worker(record["environment"], Algorithm.from_record(record["algorithm"]), ROWS) as worker:
        print(_READY, flush=True)
        while not ended.is_set():
            worker.step()
            if role is not None:
                whole, own = time.perf_counter(), time.thread_time()
                role.fetch(record["policy"])
                requests.append((time.perf_counter() - whole, time.thread_time() - own))
    print(json.dumps(requests), flush=True)


if __name__ == "__main__":
    main()
