"""The process of one run: trains from a configuration and can kill some of its workers.

Arguments: the configuration's file, the run directory, the number of workers to kill, and the environment step at
which to kill them. At the end it prints a list of the numbers of the killed workers; errors go to stderr.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.report.display import Heading, open_display
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training import train

__all__ = ["kill_workers", "worker_processes"]

_POLL_SECONDS = 0.1


def worker_processes(parent: int) -> dict[int, int]:
    """Process ids of a run's workers by their numbers; `parent` is the run's process id."""
    found = {}
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for process in map(int, children.read_text().split()):
            with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                if b"headrace.launch.child" in words and b"worker" in words:
                    found[int(words[words.index(b"worker") + 1])] = process
    return found


def kill_workers(run: RunDirectory, count: int, step: int, killed: list[int]) -> None:
    """Waits until a run has made this many environment steps, then kills its last workers with SIGKILL.

    Adds their numbers to `killed`. Runs in a thread of the run's process.
    """
    while not any(
        record["kind"] == "progress" and record["environment_steps"] >= step for record in run.read_metrics()
    ):
        time.sleep(_POLL_SECONDS)
    workers = worker_processes(os.getpid())
    for number in sorted(workers)[-count:]:
        os.kill(workers[number], signal.SIGKILL)
        killed.append(number)


def _main() -> int:
    config_path, folder, count, step = sys.argv[1:]
    killed: list[int] = []
    try:
        config = RunConfig.from_json(Path(config_path).read_text(encoding="utf-8"))
        heading = Heading(config.environment, config.algorithm.name, config.topology.name, folder)
        with RunDirectory.create(Path(folder), config.to_json()) as run, open_display(heading, quiet=True) as display:
            if int(count):
                arguments = (run, int(count), int(step), killed)
                threading.Thread(target=kill_workers, args=arguments, daemon=True).start()
            train(config, run, display)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(killed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
