"""The contract of every role, what a launcher gives to it, and the contract of workers."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from headrace.environments import Episode
from headrace.fields import write_fields
from headrace.replay import ReplayTable
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import PolicyHandle, TableHandle
from headrace.servers import Endpoint, RoleServer, connect_role, connect_tables

__all__ = [
    "GATE",
    "GENERATIONS_PER_START",
    "HANG_STATUS",
    "HELD",
    "RUN",
    "SLOT",
    "Learning",
    "Role",
    "RoleContext",
    "Stop",
    "Worker",
    "generation_seed",
]

HANG_STATUS = 76
"""Exit status of a role's process that ended itself because its environment did not return."""

GATE = "gate"
"""A Gate: whether workers may continue, and the environment steps of all workers so far."""
HELD = "held"
"""Mailbox in which workers confirm that they are paused at the gate."""
RUN = "run"
"""A RunNotice for separately started roles; empty after the run has ended."""
SLOT = "slot"
"""Followed by "-" and a number: the acting role of that slot as JSON, for the separately started role that takes it."""

GENERATIONS_PER_START = 1 << 31
"""Generations of the roles of one start of a run; those of the next start are above them."""
_GENERATION_STRIDE = 1_000_003
"""Between the seeds of two generations: larger than the number of roles, whose seeds are consecutive."""


class Stop(Protocol):
    """Tells a role to end; a `clock.Event` is one."""

    def is_set(self) -> bool:
        """Whether the role must end."""

    def wait(self, timeout: float) -> bool:
        """Waits for these seconds, or until the role must end; returns whether it must."""


def generation_seed(seed: int, generation: int) -> int:
    """The seed of a role's generation; that of a restarted role is another, so that it plays other episodes."""
    return seed + _GENERATION_STRIDE * generation


class RoleContext(contextlib.AbstractContextManager["RoleContext"]):
    """What a launcher gives to a role: the run's server, and a signal to stop.

    Closes the role's connections at the end.
    """

    def __init__(self, endpoint: Endpoint, stop: Stop) -> None:
        self.endpoint = endpoint
        self.stop = stop
        self._ends = contextlib.ExitStack()

    def connect(self, endpoint: Endpoint | None = None) -> RoleServer:
        """A new connection to the run's server, or to another; raises as connect_role()."""
        return self._ends.enter_context(contextlib.closing(connect_role(endpoint or self.endpoint)))

    def table(self, handle: TableHandle) -> ReplayTable:
        """A table of the run's server over a separate connection; raises as connect_tables()."""
        connection = self._ends.enter_context(contextlib.closing(connect_tables(self.endpoint)))
        return connection.table(self.endpoint.name(handle.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()


@dataclass(frozen=True)
class Role(ABC):
    """One role of a program: what runs, independent of where; sent as JSON. Its class is listed in `ROLES`."""

    kind: ClassVar[str]
    ends_with_training: ClassVar[bool] = False
    """Whether it ends with the training process. Reports from an earlier start then do not count: the checkpoint has
    that work, or the run has lost it."""

    index: int
    """Number among the roles of its kind."""
    generation: int = field(default=0, kw_only=True)
    """Increases with every start, so that a restarted actor does not repeat episodes."""

    @property
    def shares_memory(self) -> bool:
        """Whether it must run on the learner's machine, with which it shares memory."""
        return False

    @property
    def elastic(self) -> bool:
        """Whether the run can go on without it: one of several that do the same."""
        return False

    @property
    def relayed_policy(self) -> PolicyHandle | None:
        """The policies that a relay on its machine may pass on to it; None if it takes them from the server only."""
        return None

    def relayed(self, relay: Endpoint) -> Self:
        """The same role, with the policies of this relay."""
        raise NotImplementedError(f"{self.name} has no relayed policy")

    @abstractmethod
    def run(self, context: RoleContext) -> None:
        """Returns, or raises ClosedError, when asked to stop or when the server is gone; raises the role's errors.

        Sends a report about once a second: a role without reports is taken for one that hangs.
        """

    @property
    def name(self) -> str:
        """Name for logs and messages, such as "actor 0"."""
        return f"{self.kind} {self.index}"

    def to_record(self) -> dict[str, Any]:
        """The role as JSON, with its kind."""
        return {"kind": self.kind, **write_fields(self)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Role":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else.

        A class of a kind reads only that kind, and imports no other's module.
        """
        from headrace.roles.registry import ROLES, read_role  # which needs this class

        return read_role(record, (cls.kind,) if hasattr(cls, "kind") else (*ROLES,))


class Learning(Protocol):
    """Learner statistics, aggregated over all workers; one thread writes them, others may read them."""

    steps: int
    """Number of updates."""
    loss: float
    """Loss of the last update."""
    staleness: float
    """Mean number of updates between the policy that chose the last batch's actions and the policy that learns from it.
    For workers that share parameters: updates between reading the parameters and applying a gradient, over the run."""
    clock: PhaseClock
    """A clock with LEARNER_PHASES."""

    @property
    def mean_staleness(self) -> float | None:
        """The staleness of all batches or gradients; None if there were none."""

    def resume(self, steps: int, mean_staleness: float | None) -> None:
        """Continues after so many updates of earlier starts."""

    @property
    def version(self) -> int:
        """Version of the last published policy."""

    def publish(self) -> None:
        """Publishes the current policy and waits until it is published."""


class Worker(Protocol):
    """Acts and learns in turn. One thread."""

    steps: int
    """Number of environment steps."""
    clock: PhaseClock
    """A clock with ACTOR_PHASES, paused while the worker learns."""

    @property
    def learner(self) -> Learning:
        """The learning side; its clock is paused while the worker acts."""

    @property
    def exploration(self) -> Sequence[float]:
        """How much each environment explores now: [E], as `Algorithm.exploration`; 1 with a stochastic policy."""

    def step(self) -> None:
        """One turn: a few environment steps, then the updates that they allow."""

    def take_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from `clock`; `learner.clock` counts none but those of learning."""

    def state(self) -> dict[str, Any]:
        """JSON-able state that, with parameters and replay, resumes the worker at the same place."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what state() returned, before the first step."""

    def close(self) -> None:
        """Closes the environments."""
