"""The process of one actor: real Breakout, or a synthetic one that pushes chunks of that size at a set rate.

It fills the table, says "ready", acts, and answers with its measurements in the window. Then it sends chunks for one
large pull.
"""

import itertools
import time
from collections.abc import Generator
from typing import Any

from headrace.algorithms.dqn.config import DQN
from headrace.errors import LaunchError
from headrace.parameters import Policy
from headrace.roles.actor import Actor
from headrace.roles.actor import ActorSettings as GameSettings
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import POLICY, REPLAY
from headrace.servers.base import RoleServer
from headrace.servers.connect import connect_role
from headrace.studies.in_network.case import (
    CHUNK_STEPS,
    DISCOUNT,
    EXPERIENCE,
    N_STEP,
    SPEC,
    ActorSettings,
    count_steps,
    make_chunks,
)
from headrace.studies.processes import Window, answer, received
from headrace.studies.training import ACTOR_PHASES

__all__ = ["Pushes"]

_BREAKOUT = "ALE/Breakout-v5"
_PULL_PERIOD_STEPS = 400
"""Steps between two polls for newer parameters (Horgan et al. 2018)."""
_SOURCES = 8  # distinct chunks, pushed in turn
_EPSILON = 0.05
_POLL_SECONDS = 0.02

Versioned = tuple[int, bytes]
"""A policy's version and graph."""
Acting = Generator[int, Versioned | None, None]
"""Acts; gives the number of environment steps each time, and takes a newer policy if there is one."""


class Pushes:
    """Sends chunks to the variant's destination and records the time that it takes."""

    def __init__(self, server: RoleServer, sampled_by_server: bool) -> None:
        self._server = server
        self._sampled_by_server = sampled_by_server
        self.all_transitions = 0
        """Chunks sent since the start, counted or not."""
        self.reset()

    def reset(self) -> None:
        """Resets the counts."""
        self.seconds: list[float] = []
        self.bytes = 0
        self.transitions = 0

    def send(self, chunks: list[bytes], count: int) -> None:
        """Sends this many chunks in turn without counting them."""
        for chunk in itertools.islice(itertools.cycle(chunks), count):
            self._push(chunk)

    def __call__(self, *chunks: bytes) -> None:
        """Sends chunks, each with its own request, and counts them."""
        for chunk in chunks:
            started = time.perf_counter()
            self._push(chunk)
            self.seconds.append(time.perf_counter() - started)
            self.bytes += len(chunk)
            self.transitions += count_steps(chunk)

    def _push(self, chunk: bytes) -> None:
        self.all_transitions += count_steps(chunk)
        if self._sampled_by_server:
            self._server.insert(REPLAY.name, chunk)
        else:
            self._server.put(EXPERIENCE, chunk)


def _synthetic(frames_per_second: float, pushes: Pushes, clock: PhaseClock, chunks: list[bytes]) -> Acting:
    """Sleeps for the time of a chunk's steps and sends the chunk; has no policy."""
    for chunk in itertools.cycle(chunks):
        clock.enter("environment")
        time.sleep(CHUNK_STEPS / frames_per_second)
        clock.enter("push")
        pushes(chunk)
        clock.enter("other")
        yield CHUNK_STEPS


def _breakout(index: int, pushes: Pushes, clock: PhaseClock, first: Versioned) -> Acting:
    """Plays one game, a step each time, and pushes finished chunks."""
    version, graph = first
    policy = Policy(graph, version)
    settings = GameSettings(
        environment=_BREAKOUT,
        seed=index,
        first_environment=index,
        exploration=(_EPSILON,),
        algorithm=DQN(n_step=N_STEP, discount=DISCOUNT, clip_rewards=True),
        chunk_steps=CHUNK_STEPS,
        values=True,
        spec=SPEC,
        pull_period=_PULL_PERIOD_STEPS,
    )
    actor = Actor(settings, policy.output, pushes, clock)
    try:
        while True:
            actor.step()
            newer = yield 1
            if newer is not None:
                version, graph = newer
                policy.load(graph, version)
                actor.set_policy_version(version)
    finally:
        actor.close()


def _first_policy(server: RoleServer) -> Versioned:
    while (first := server.fetch(POLICY.name)) is None:
        time.sleep(_POLL_SECONDS)
    return first


def _measure(acting: Acting, server: RoleServer, pushes: Pushes, clock: PhaseClock, version: int) -> dict[str, Any]:
    """Acts until the end of the window; returns the measurements in it."""
    window = received(Window)
    begun = False
    pulls: list[float] = []
    steps, since_pull = 0, _PULL_PERIOD_STEPS // 2
    before, started = dict(clock.seconds), 0.0
    newer: Versioned | None = None
    next(acting)
    while (now := time.monotonic()) < window.end:
        if not begun and now >= window.begin:
            clock.enter("other")
            begun, started, before = True, time.perf_counter(), dict(clock.seconds)
            steps, pulls = 0, []
            pushes.reset()
        done = acting.send(newer)
        newer = None
        steps += done
        since_pull += done
        if since_pull >= _PULL_PERIOD_STEPS:
            since_pull -= _PULL_PERIOD_STEPS
            clock.enter("pull")
            asked = time.perf_counter()
            newer = server.fetch(POLICY.name, version)
            if newer is not None:
                pulls.append(time.perf_counter() - asked)
                version = newer[0]
                clock.enter("load")  # which the next step begins with
            else:
                clock.enter("other")
    clock.enter("other")
    if not begun:
        raise LaunchError("an actor made no step that begins in the window of the measurement: the machine is too busy")
    return {
        "seconds": time.perf_counter() - started,
        "phases": {phase: clock.seconds[phase] - before[phase] for phase in ACTOR_PHASES},
        "steps": steps,
        "push_seconds": pushes.seconds,
        "pushed_bytes": pushes.bytes,
        "pushed_transitions": pushes.transitions,
        "pull_seconds": pulls,
    }


def _act() -> None:
    settings = received(ActorSettings)
    server = connect_role(settings.endpoint)
    chunks = make_chunks(_SOURCES, seed=settings.index)
    pushes = Pushes(server, settings.sampled_by_server)
    pushes.send(chunks, settings.fill_chunks)
    first = _first_policy(server)
    clock = PhaseClock(ACTOR_PHASES)
    if settings.kind == "breakout":
        acting = _breakout(settings.index, pushes, clock, first)
    else:
        acting = _synthetic(settings.frames_per_second, pushes, clock, chunks)
    answer("ready")
    record = _measure(acting, server, pushes, clock, first[0])
    acting.close()
    pushes.send(chunks, settings.left_chunks)
    answer(record | {"all_transitions": pushes.all_transitions})
    server.close()


if __name__ == "__main__":
    _act()
