"""Simulated time: threads that run one at a time, chosen by time and a seed, and share a number of cores.

Only the thread that has the baton runs, so nothing here needs a lock. It hands the baton on where it waits or works:
computation itself takes no simulated time; the time that it costs passes at its end. Busy threads share the cores
equally: the finish of each is kept in units of work done, `_done`. It grows by min(1, cores / busy) a second, or less
if busy cores slow each other.
"""

import heapq
import itertools
import math
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from headrace.clock import Condition, Event, Executor, Thread, World, inhabit
from headrace.errors import LaunchError
from headrace.launch.simulated.costs import Costs
from headrace.launch.simulated.link import Link

__all__ = ["Killed", "Process", "SimulatedWorld", "Task"]

_JOIN_SECONDS = 10.0
_GATE_SECONDS = 1.0
"""In which a thread that was given the baton finds its gate open."""


class Killed(BaseException):
    """Ends the threads of a simulated process; raised wherever one waits or works."""


class Process:
    """A simulated process: its threads, and what faults do to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = name.partition(" ")[0]
        self.tasks: list[Task] = []
        self.slowdown = 1.0
        """Factor on the time of its work."""
        self.paused_until = 0.0
        self.cut_until = 0.0
        self.delay_seconds = 0.0
        """Added to each of its messages."""
        self.fault_ends: dict[str, float] = {}
        """When the longest fault of each kind ends."""


class Task(Thread):
    """A simulated thread."""

    def __init__(self, world: "SimulatedWorld", process: Process, name: str, generator: random.Random) -> None:
        self.world, self.process, self.name, self.random = world, process, name, generator
        self.gate = threading.Lock()  # locked; released to hand over the baton
        self.gate.acquire()
        self.error: BaseException | None = None  # to be raised where it waits
        self.charged: set[str] = set()
        self.token = 0  # of its current wait; entries with another are stale
        self.parked = self.busy = self.woken = self.killed = self.ended = False
        self.finish = 0.0  # of its work, in units of `_done`
        self.left = 0.0  # of work that a pause has interrupted, in seconds on one core
        self.since = 0.0  # of `_occupied`, when it got its core
        self.used = 0.0  # core seconds of its work, without those of its current stay on a core
        self.kind = ""  # of process for which it works; empty when it does not
        self.serving = False  # whether its work is the server's
        self.joiners: list[Task] = []
        self.thread: threading.Thread | None = None

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, or for the deadline."""
        if not self.ended:
            self.world.park(self.joiners, timeout)

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self.ended


class SimulatedWorld(World):
    """The time, threads and processes of one run. The thread that creates it is the first of its threads."""

    def __init__(self, cores: int, link: Link, costs: Costs, seed: int) -> None:
        self.cores: int = cores
        self.processes: dict[str, Process] = {}
        self._link, self._costs, self._seed = link, costs, seed
        self._now = self._done = self._occupied = 0.0  # the last: core seconds that each busy thread has had
        self._random = random.Random(f"{seed}/order")
        self._numbers = itertools.count()
        self._names: dict[str, int] = {}
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._working: list[tuple[float, int, Task, int]] = []
        self._busy = 0
        self._used: dict[str, float] = defaultdict(float)  # core seconds, by kind of process
        self._free_at = [0.0, 0.0]  # of the link, to the server and from it
        self._locks: dict[str, AbstractContextManager[object]] = {}
        self._tasks: list[Task] = []
        self._urgent: Task | None = None
        self._turns = 0  # how often the baton was handed on, or work was done that takes no time
        self.root = self.running = self._new_task(self.process("training"), "main")

    # Time and work.

    def monotonic(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Waits."""
        self.park(None, seconds)

    def spend(self, work: str, count: int = 1) -> None:
        """Works for as long as this costs."""
        process = self.running.process
        self._spend(work, count, process.slowdown, process.kind)

    def serve(self, work: str, count: int = 1) -> None:
        """The same for work of the server, which is in the training process: in a thread for each that waits for it."""
        task = self.running
        task.serving = True
        try:
            self._spend(work, count, 1.0, self.root.process.kind)
        finally:
            task.serving = False

    def transfer(self, bytes_up: int, bytes_down: int = 0) -> None:
        """Waits for a message to the server, and for the answer; one of no bytes is not sent."""
        for direction, count in enumerate((bytes_up, bytes_down)):
            if count:
                self._carry(direction, count)

    def used_core_seconds(self) -> Mapping[str, float]:
        """Core seconds of work so far, by kind of process: "training", or that of a role, such as "worker"."""
        used = defaultdict(float, self._used)
        for task in self._tasks:
            if task.kind:
                used[task.kind] += task.used + (self._occupied - task.since if task.busy else 0.0)
        return dict(used)

    def progress(self) -> tuple[str, int] | None:
        """See `Site`; any thread may ask."""
        turns, task = self._turns, self.running
        return None if task is self.root else (task.process.name, turns)

    def random_bits(self, bits: int) -> int:
        """A number that this thread's seed decides."""
        return self.running.random.getrandbits(bits)

    # What threads wait for.

    def new_event(self) -> Event:
        """An event that is not set."""
        from headrace.launch.simulated.waiting import SimulatedEvent

        return SimulatedEvent(self)

    def new_lock(self) -> AbstractContextManager[object]:
        """A lock, to be used as a context."""
        from headrace.launch.simulated.waiting import SimulatedLock

        return SimulatedLock(self)

    def new_condition(self) -> Condition:
        """A condition with its own lock."""
        from headrace.launch.simulated.waiting import SimulatedCondition

        return SimulatedCondition(self)

    def new_executor(self, name: str) -> Executor:
        """An executor whose thread has this name."""
        from headrace.launch.simulated.waiting import SimulatedExecutor

        return SimulatedExecutor(self, name)

    def shared_lock(self, name: str) -> AbstractContextManager[object]:
        """The lock of this name."""
        if name not in self._locks:
            self._locks[name] = self.new_lock()
        return self._locks[name]

    def start_thread(self, target: Callable[[], object], name: str) -> Task:
        """Starts a thread of the running thread's process."""
        self._require_alive(self.running)
        return self.start(self.running.process, target, name)

    # Processes.

    def process(self, name: str) -> Process:
        """A new process; it takes the place of an earlier one of this name."""
        self.processes[name] = Process(name)
        return self.processes[name]

    def start(self, process: Process, target: Callable[[], object], name: str) -> Task:
        """Starts a thread of a process."""
        task = self._new_task(process, name)
        whole = f"{process.name}: {name}"
        task.thread = threading.Thread(target=self._run, args=(task, target), name=whole, daemon=True)
        task.parked = True
        try:
            task.thread.start()  # it waits for its turn
        except RuntimeError as error:
            process.tasks.remove(task)
            self._tasks.remove(task)
            raise LaunchError(f"{whole} can't be started: {error}") from error
        self._make_ready(task)
        return task

    def pause(self, process: Process, until: float) -> None:
        """Lets a process stand still until then: only the server's work for it goes on."""
        process.paused_until = until
        for task in process.tasks:
            if task.busy and not task.serving:
                self._leave_core(task)
                task.left = task.finish - self._done
                task.token += 1
                heapq.heappush(self._timers, (until, next(self._numbers), task, task.token))

    def slow(self, process: Process, factor: float) -> None:
        """Lets a process's work take this many times as long, what is left of its current work too."""
        ratio, process.slowdown = factor / process.slowdown, factor
        for task in process.tasks:
            if task.serving:
                continue
            task.left *= ratio
            if task.busy:
                task.finish = self._done + (task.finish - self._done) * ratio
                task.token += 1
                heapq.heappush(self._working, (task.finish, next(self._numbers), task, task.token))

    def interrupt(self, task: Task, error: BaseException) -> None:
        """Raises an exception where a thread waits or works."""
        task.error = error
        self._make_ready(task)

    def end(self, process: Process) -> None:
        """Kills a process: its threads leave where they wait or work, and can't do anything any more."""
        for task in list(process.tasks):
            task.killed = True
            if task is not self.running:
                self._make_ready(task)

    def close(self) -> None:
        """Kills everything but the first thread, and waits until it has ended."""
        self.root.killed = False
        for process in [*self.processes.values(), *(task.process for task in self._tasks)]:
            for task in list(process.tasks):
                task.killed = task is not self.root
                if task is not self.root:
                    self._make_ready(task)
        threads = [task.thread for task in self._tasks if task.thread]
        while len(self._tasks) > 1:
            self.park(self._tasks[-1].joiners, None)
        for thread in threads:
            thread.join(_JOIN_SECONDS)

    # Waiting; for `waiting.py`.

    def park(self, waiters: list[Task] | None, timeout: float | None) -> bool:
        """The running thread waits in `waiters` until wake(), or until the deadline; returns whether it was woken."""
        task = self.running
        self._require_alive(task)
        task.token += 1
        task.parked, task.woken = True, False
        if timeout is not None:
            heapq.heappush(self._timers, (self._now + max(0.0, timeout), next(self._numbers), task, task.token))
        if waiters is not None:
            waiters.append(task)
        try:
            self._switch(task)
        finally:
            if waiters is not None and task in waiters:
                waiters.remove(task)
        return task.woken

    def wake(self, task: Task) -> None:
        """Ends the wait of a thread."""
        if task.parked:
            task.woken = True
            self._make_ready(task)

    # The scheduler.

    def _new_task(self, process: Process, name: str) -> Task:
        whole = f"{process.name}/{name}"
        number = self._names[whole] = self._names.get(whole, -1) + 1
        task = Task(self, process, name, random.Random(f"{self._seed}/{whole}/{number}"))
        process.tasks.append(task)
        self._tasks.append(task)
        return task

    def _spend(self, work: str, count: int, slowdown: float, kind: str) -> None:
        """Lets the running thread work; counts the time as that of a kind of process."""
        task = self.running
        task.left = self._costs.draw(work, count, task.charged, task.random) * slowdown
        task.used, task.kind = 0.0, kind
        if not task.left:  # the thread keeps the baton; yet it does not hang
            self._turns += 1
        try:
            while task.left > 0:
                self._work(task)
        finally:  # also when a fault ends it
            self._used[kind] += task.used
            task.kind = ""

    def _work(self, task: Task) -> None:
        """Does what is left of the running thread's work, or as much as it can before a pause."""
        self._require_alive(task)
        task.token += 1
        task.parked = task.busy = True
        task.finish, task.left, task.since = self._done + task.left, 0.0, self._occupied
        self._busy += 1
        heapq.heappush(self._working, (task.finish, next(self._numbers), task, task.token))
        self._switch(task)

    def _leave_core(self, task: Task) -> None:
        if task.busy:
            task.busy = False
            task.used += self._occupied - task.since
            self._busy -= 1

    def _make_ready(self, task: Task) -> None:
        if task.parked:
            self._leave_core(task)
            task.parked = False
            task.token += 1
            self._ready.append(task)

    def _require_alive(self, task: Task) -> None:
        if task.killed:
            raise Killed

    def _carry(self, direction: int, count: int) -> None:
        process = self.running.process
        while process.cut_until > self._now:
            self.sleep(process.cut_until - self._now)
        begin = max(self._now, self._free_at[direction])
        self._free_at[direction] = end = begin + count / self._link.bytes_per_second
        self.sleep(end - self._now + self._link.latency_seconds + process.delay_seconds)

    def _switch(self, task: Task) -> None:
        """Hands the baton to the next thread, and waits until it comes back."""
        following = self._next()
        if following is not task:
            self.running = following
            following.gate.release()
            self._await_baton(task)
        self.running = task
        if self._urgent is task:
            self._urgent = None
        if task.killed:
            raise Killed
        if task.error is not None:
            error, task.error = task.error, None
            raise error

    def _await_baton(self, task: Task) -> None:
        try:
            task.gate.acquire()
        except BaseException as error:  # a signal's handler raised it in the main thread, which has no baton
            task.error, self._urgent = error, task
            while True:  # the first acquire() may have succeeded before the handler ran: then the gate stays closed
                has_baton = self.running is task
                if task.gate.acquire(timeout=_GATE_SECONDS) or has_baton:
                    break

    def _run(self, task: Task, target: Callable[[], object]) -> None:
        with inhabit(self):
            task.gate.acquire()
            self.running = task
            try:
                if not task.killed:
                    target()
            except Killed:
                pass
            except BaseException as error:
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, task.thread)))
            task.ended = True
            task.process.tasks.remove(task)
            self._tasks.remove(task)
            for joiner in list(task.joiners):
                self.wake(joiner)
            self.running = self._next()
            self.running.gate.release()

    def _next(self) -> Task:
        """The thread that runs next; lets time pass until there is one."""
        self._turns += 1
        while True:
            if self._urgent is not None:
                urgent, self._urgent = self._urgent, None
                self._make_ready(urgent)
                if urgent in self._ready:
                    self._ready.remove(urgent)
                    return urgent
            while self._ready:
                index = self._random.randrange(len(self._ready)) if len(self._ready) > 1 else 0
                self._ready[index], self._ready[-1] = self._ready[-1], self._ready[index]
                task = self._ready.pop()
                if task.process.paused_until <= self._now or task.killed or task.serving:
                    return task
                task.parked = True
                heapq.heappush(self._timers, (task.process.paused_until, next(self._numbers), task, task.token))
            self._pass_time()

    def _pass_time(self) -> None:
        """Moves to the next deadline or end of work, and makes its threads ready."""
        for queue in (self._timers, self._working):
            while queue and queue[0][3] != queue[0][2].token:
                heapq.heappop(queue)
        share = min(1.0, self.cores / self._busy) if self._busy else 0.0
        rate = share / self._slowdown()
        deadline = self._timers[0][0] if self._timers else math.inf
        finish = self._now + max(0.0, self._working[0][0] - self._done) / rate if self._working else math.inf
        if deadline == finish == math.inf:
            self.root.error = LaunchError("the simulation can't continue: every thread waits, and none for a time")
            self._make_ready(self.root)
            return
        seconds = max(0.0, min(deadline, finish) - self._now)
        self._done += seconds * rate
        self._occupied += seconds * share
        self._now = max(self._now, min(deadline, finish))
        if finish <= deadline:
            self._done = self._working[0][0]  # exactly
            self._make_due_ready(self._working, self._done)
        self._make_due_ready(self._timers, self._now)  # at the same time, in a random order

    def _slowdown(self) -> float:
        """Factor on the time of all work: 1 with one busy core.

        It grows with busy cores to 1 + contention with all, and further with busy threads to (1 + contention)
        (1 + switching) with two on each core.
        """
        others = min(self.cores, self._busy) - 1
        busy = others / (self.cores - 1) if others > 0 else 0.0
        shared = min(1.0, max(0.0, self._busy / self.cores - 1))
        return (1 + self._costs.contention * busy) * (1 + self._costs.switching * shared)

    def _make_due_ready(self, queue: list[tuple[float, int, Task, int]], bound: float) -> None:
        while queue and queue[0][0] <= bound:
            _, _, task, token = heapq.heappop(queue)
            if token == task.token:
                self._make_ready(task)
