"""Daemon threads in native calls while the interpreter exits: the process is not aborted."""

import subprocess
import sys

import pytest

PRELUDE = """
import atexit, threading, time
import numpy as np

before = []
atexit.register(lambda: [call() for call in before])  # runs after the module's own exit function

from headrace._native import BatchAhead, BatchStream, BatchView, Client, ChunkWriter, Server, Signature, Table

SIGNATURE = Signature((2,), "float32")

def batch():
    def numbers(dtype, *shape):
        return np.zeros((4, *shape), dtype)
    f, u = np.float32, np.uint64
    return BatchView(SIGNATURE, numbers(f, 2), numbers(f, 2), numbers(np.int64), numbers(f), numbers(f), numbers(f),
                     numbers(f), numbers(u), numbers(u))

class Late:
    "Ends the blocked call while the interpreter is finalized, and gives its thread the time to go on."
    def __init__(self, wake):
        self.wake, self.sleep = wake, time.sleep
    def __del__(self):
        self.wake()
        self.sleep(0.5)

def block(call):
    def run():
        begun.set()
        call()
    begun = threading.Event()
    threading.Thread(target=run, daemon=True).start()
    begun.wait()
    time.sleep(0.05)  # it is in the call by now, most likely
"""

CASES = {
    "table": """
table = Table(SIGNATURE, capacity=100)
block(lambda: table.sample_into(batch(), 0.4))
before.append(table.stats)
late = Late(table.close)
""",
    "batches ahead": """
table = Table(SIGNATURE, capacity=100)
ahead = BatchAhead(table, [batch(), batch()], 0.4)
block(ahead.next)
before.append(table.stats)
late = Late(table.close)
""",
    "client": """
server = Server()
table = server.add_table("replay", SIGNATURE, capacity=100)
client = Client(server.listen("unix:@"))
block(lambda: client.sample_into("replay", batch(), 0.4))
before.append(server.stats)
late = Late(table.close)
""",
    "stream": """
server = Server()
table = server.add_table("replay", SIGNATURE, capacity=100)
stream = BatchStream(server.listen("unix:@"), "replay", 4, 0.4)
block(stream.next)
before.append(server.stats)
late = Late(stream.close)
""",
}


def exit_of(script: str) -> None:
    """Runs the script, which is to end silently but for Python's warning of a fork with threads (3.12)."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + script]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("case", CASES)
def test_a_thread_in_a_native_call_does_not_abort_the_exit(case: str) -> None:
    exit_of(CASES[case])


def test_a_forked_child_exits_while_the_parent_s_threads_are_in_native_calls() -> None:
    exit_of(
        """
import os
table = Table(SIGNATURE, capacity=100)
for _ in range(4):  # threads that take and release Python's lock all the time: the parent rarely has it
    block(lambda: [table.stats() for _ in iter(int, 1)])
for _ in range(4):
    child = os.fork()
    if child == 0:
        break
    assert os.waitpid(child, 0)[1] == 0
"""
    )
