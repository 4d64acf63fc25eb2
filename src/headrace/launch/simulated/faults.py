"""Faults of a simulated run: what happens to a role, its messages or the server, and when."""

import dataclasses
import json
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headrace.clock import monotonic, sleep
from headrace.errors import ConfigError, require
from headrace.fields import check_types, errors_of, read_fields, read_input
from headrace.launch.deaths import DEATHS, DEATHS_SECONDS
from headrace.launch.simulated.world import Process, SimulatedWorld
from headrace.servers.simulated import SimulatedServer

__all__ = ["Fault", "check_roles", "names_file", "plan_faults", "random_faults", "read_fault_rate", "read_faults"]

_Kind = Literal["kill", "slow", "pause", "delay", "cut", "server"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_FIELDS: dict[_Kind, tuple[str, ...]] = {"kill": ("role",), "server": ("seconds", "keeps_data")}
"""Fields of a kind besides `at`; the others have `role` and `seconds`."""
_ANY = "*"
_NONE, _RANDOM = "none", "random:"
_MOST_RATE = 100.0
_RANDOM_SECONDS = (0.1, 3.0)
_RANDOM_HORIZON = 3600.0
_START_SECONDS = 10.0
"""In which roles that were killed have usually started again."""
_CALM_SECONDS = 1.0
"""After the server is back, in which roles reach it before it is stopped again."""
_SLOW = 10.0
_DELAY_SECONDS = 0.05
_KILLS = DEATHS - 1


@dataclass(frozen=True)
class Fault:
    """One fault; `role` is a name such as "actor 0", or "*" for one that is running, chosen by the seed."""

    at: float
    """Simulated seconds since the start."""
    kind: _Kind
    """kill: the role's process ends; slow: its work takes ten times as long; pause: it stands still; delay: each of its
    messages arrives 50 ms later; cut: its messages wait; server: the server is away, and comes back."""
    role: str = _ANY
    seconds: float = 1.0
    """How long it lasts."""
    keeps_data: bool = True
    """Whether the server comes back with experience and shards."""

    def __post_init__(self) -> None:
        check_types(self)
        require("at", self.at, self.at >= 0, "0 or more")
        require("seconds", self.seconds, self.seconds > 0, "above 0")
        require("kind", self.kind, self.kind in _KINDS, f"one of {', '.join(_KINDS)}")


def read_fault_rate(text: str) -> float:
    """The rate of "random:RATE", 0 for any other text, which is "none" or a file; raises ConfigError."""
    if not text.startswith(_RANDOM):
        return 0.0
    try:
        rate = float(text.removeprefix(_RANDOM))
    except ValueError:
        rate = 0.0
    require("faults", text, 0 < rate <= _MOST_RATE, f"random:RATE with a rate above 0 and at most {_MOST_RATE:g}")
    return rate


def names_file(text: str) -> bool:
    """Whether this is the name of a file with faults."""
    return text not in ("", _NONE) and not text.startswith(_RANDOM)


def read_faults(text: str, seed: int) -> tuple[Fault, ...]:
    """Reads "none", "random:RATE" (faults a second), or a file with a JSON list of faults; raises ConfigError."""
    if text == _NONE:
        return ()
    require("faults", text, text != "", "none, random:RATE or a JSON file")
    rate = read_fault_rate(text)
    if rate:
        return random_faults(rate, seed)
    content = read_input("faults", text, "none, random:RATE or a JSON file")
    try:
        records = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"faults is {text}; it must be a JSON file: {error}") from None
    require("faults", text, isinstance(records, list), "a file with a JSON list")
    faults = []
    for number, record in enumerate(records, 1):
        with errors_of(f"faults: entry {number} of {text}"):
            fault = read_fields(Fault, record)
            used = ("at", "kind", *_FIELDS.get(fault.kind, ("role", "seconds")))
            for field, value in record.items():
                require(field, value, field in used, f"left out: {fault.kind} has only {', '.join(used)}")
            faults.append(fault)
    return tuple(sorted(faults, key=lambda fault: fault.at))


def check_roles(faults: Sequence[Fault], names: Sequence[str]) -> None:
    """Raises ConfigError for a fault of a role that is not among these, all roles of a run."""
    counts = Counter(name.partition(" ")[0] for name in names)
    roles = [f"{kind} 0" + (f" to {kind} {count - 1}" if count > 1 else "") for kind, count in counts.items()]
    for fault in faults:
        known = fault.kind == "server" or fault.role == _ANY or fault.role in names
        require("faults: role", fault.role, known, f"{_ANY} or a role of this run: {', '.join(roles)}")


def random_faults(rate: float, seed: int) -> tuple[Fault, ...]:
    """Faults of all kinds at random times, about `rate` a second, in the first hour.

    Servers keep their data, and none is stopped while it is away: a run ends after a minute without it. At most two
    roles are killed in 70 seconds: a run ends when one dies three times in a minute, not counting its starts.
    """
    generator = random.Random(f"{seed}/faults")
    faults, at, server_back = [], 0.0, 0.0
    kills: deque[float] = deque([-math.inf] * _KILLS, maxlen=_KILLS)
    while (at := at + generator.expovariate(rate)) < _RANDOM_HORIZON:
        excluded: set[_Kind] = {"kill"} if at - kills[0] <= DEATHS_SECONDS + _START_SECONDS else set()
        if at < server_back:
            excluded.add("server")
        kind = generator.choice([each for each in _KINDS if each not in excluded])
        fault = Fault(at, kind, seconds=generator.uniform(*_RANDOM_SECONDS))
        if kind == "kill":
            kills.append(at)
        if kind == "server":
            server_back = at + fault.seconds + _CALM_SECONDS
        faults.append(fault)
    return tuple(faults)


def plan_faults(
    world: SimulatedWorld, faults: tuple[Fault, ...], kill: Callable[[str], object], server: SimulatedServer
) -> None:
    """Lets the faults happen, each at its time; runs in a separate thread."""
    outage = _Outage(world, server)
    for fault in faults:
        sleep(max(0.0, fault.at - monotonic()))
        if fault.kind == "server":
            outage.begin(fault)
            continue
        names = sorted(name for name, each in world.processes.items() if each.tasks and _is_role(name))
        if not names:
            continue
        name = world.running.random.choice(names) if fault.role == _ANY else fault.role
        if name in names:
            _strike(world, dataclasses.replace(fault, role=name), kill)


def _strike(world: SimulatedWorld, fault: Fault, kill: Callable[[str], object]) -> None:
    """Lets a fault happen to a role; of several at a time of one kind, the longest counts."""
    if fault.kind == "kill":
        kill(fault.role)
        return
    process = world.processes[fault.role]
    end = max(monotonic() + fault.seconds, process.fault_ends.get(fault.kind, 0.0))
    process.fault_ends[fault.kind] = end
    if fault.kind == "pause":
        world.pause(process, end)
    elif fault.kind == "cut":
        process.cut_until = end
    elif fault.kind == "slow":
        world.slow(process, _SLOW)
        _recover(world, process, fault, lambda: world.slow(process, 1.0))
    else:
        process.delay_seconds = _DELAY_SECONDS
        _recover(world, process, fault, lambda: setattr(process, "delay_seconds", 0.0))


def _recover(world: SimulatedWorld, process: Process, fault: Fault, end: Callable[[], object]) -> None:
    """Starts a thread that ends the fault, unless another of its kind lasts longer."""

    def recover() -> None:
        sleep(fault.seconds)
        if monotonic() >= process.fault_ends[fault.kind]:
            end()

    world.start(world.running.process, recover, "recovery")


class _Outage:
    """The time that the server is away: until the last of the faults that overlap has ended."""

    def __init__(self, world: SimulatedWorld, server: SimulatedServer) -> None:
        self._world = world
        self._server = server
        self._faults = 0
        self._keeps_data = True

    def begin(self, fault: Fault) -> None:
        """Stops the server, and starts a thread that waits for the end of the fault."""
        self._faults += 1
        self._keeps_data = self._keeps_data and fault.keeps_data
        self._server.stop()
        self._world.start(self._world.process("server"), lambda: self._end(fault.seconds), "restart")

    def _end(self, seconds: float) -> None:
        sleep(seconds)
        self._faults -= 1
        if not self._faults:
            self._server.start(keeps=self._keeps_data)
            self._keeps_data = True


def _is_role(name: str) -> bool:
    return name not in ("training", "faults", "server")
