"""The process of one actor: real Breakout, or a synthetic one that pushes chunks of that size at a set rate.

It reads its settings from the first line, fills the table, prints "ready", reads {begin, end} in seconds of the
monotonic clock, acts, and prints its measurements between the two. Then it sends chunks for one large pull.
"""

import itertools
import json
import sys
import time
from typing import Any

from headrace.algorithms.dqn.config import DQN
from headrace.fields import read_json
from headrace.parameters import Policy
from headrace.roles.actor import ACTOR_PHASES, Actor
from headrace.roles.actor import ActorSettings as GameSettings
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import POLICY, REPLAY
from headrace.servers.base import RoleServer
from headrace.servers.connect import connect_role
from headrace.studies.in_network.case import ActorSettings
from headrace.studies.in_network.experience import (
    CHUNK_STEPS,
    DISCOUNT,
    EXPERIENCE,
    N_STEP,
    SPEC,
    count_steps,
    make_chunks,
)

__all__ = ["BREAKOUT", "PULL_PERIOD_STEPS", "Pushes", "main"]

BREAKOUT = "ALE/Breakout-v5"
PULL_PERIOD_STEPS = 400
"""Steps between two polls for newer parameters (Horgan et al. 2018)."""
_SOURCES = 8  # distinct chunks, pushed in turn
_EPSILON = 0.05
_POLL_SECONDS = 0.02


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

    def __call__(self, chunk: bytes) -> None:
        """Sends one chunk and counts it."""
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


class _Synthetic:
    """Simulates acting: sleeps for the time of a chunk's steps."""

    def __init__(self, settings: ActorSettings, pushes: Pushes, clock: PhaseClock, chunks: list[bytes]) -> None:
        self._seconds = CHUNK_STEPS / settings.frames_per_second
        self._pushes = pushes
        self._clock = clock
        self._chunks = itertools.cycle(chunks)

    def act(self) -> int:
        """Sends one chunk; returns its number of environment steps."""
        self._clock.enter("environment")
        time.sleep(self._seconds)
        self._clock.enter("push")
        self._pushes(next(self._chunks))
        self._clock.enter("other")
        return CHUNK_STEPS

    def load(self, version: int, graph: bytes) -> None:
        """Does nothing: there is no policy."""

    def close(self) -> None:
        """Nothing to close."""


class _Breakout:
    """Plays one game with the pulled policy."""

    def __init__(self, settings: ActorSettings, pushes: Pushes, clock: PhaseClock, version: int, graph: bytes) -> None:
        self._policy = Policy(graph, version)
        self._actor = Actor(
            GameSettings(
                environment=BREAKOUT,
                seed=settings.index,
                index=settings.index,
                first_environment=settings.index,
                exploration=(_EPSILON,),
                algorithm=DQN(n_step=N_STEP, discount=DISCOUNT, clip_rewards=True),
                chunk_steps=CHUNK_STEPS,
                values=True,
                spec=SPEC,
                pull_period=PULL_PERIOD_STEPS,
            ),
            self._policy.output,
            pushes,
            clock,
        )

    def act(self) -> int:
        """Takes one environment step; pushes finished chunks."""
        self._actor.step()
        return 1

    def load(self, version: int, graph: bytes) -> None:
        """Installs a newer policy."""
        self._policy.load(graph, version)
        self._actor.set_policy_version(version)

    def close(self) -> None:
        """Closes the game."""
        self._actor.close()


def _first_policy(server: RoleServer) -> tuple[int, bytes]:
    while (first := server.fetch(POLICY.name)) is None:
        time.sleep(_POLL_SECONDS)
    return first


def _measure(
    acting: _Synthetic | _Breakout, server: RoleServer, pushes: Pushes, clock: PhaseClock, version: int
) -> dict[str, Any]:
    """Acts until the end of the window, which stdin says; returns the measurements in it."""
    window = json.loads(sys.stdin.readline())
    begun = False
    pulls: list[float] = []
    steps, since_pull = 0, PULL_PERIOD_STEPS // 2
    before, started = dict(clock.seconds), 0.0
    while (now := time.monotonic()) < window["end"]:
        if not begun and now >= window["begin"]:
            clock.enter("other")
            begun, started, before = True, time.perf_counter(), dict(clock.seconds)
            steps, pulls = 0, []
            pushes.reset()
        done = acting.act()
        steps += done
        since_pull += done
        if since_pull >= PULL_PERIOD_STEPS:
            since_pull -= PULL_PERIOD_STEPS
            clock.enter("pull")
            asked = time.perf_counter()
            newer = server.fetch(POLICY.name, version)
            if newer is not None:
                pulls.append(time.perf_counter() - asked)
                clock.enter("load")
                version = newer[0]
                acting.load(*newer)
            clock.enter("other")
    clock.enter("other")
    return {
        "seconds": time.perf_counter() - started,
        "phases": {phase: clock.seconds[phase] - before[phase] for phase in ACTOR_PHASES},
        "steps": steps,
        "push_seconds": pushes.seconds,
        "pushed_bytes": pushes.bytes,
        "pushed_transitions": pushes.transitions,
        "pull_seconds": pulls,
    }


def main() -> None:
    """Runs the actor."""
    settings = read_json(ActorSettings, sys.stdin.readline(), "settings of an actor")
    server = connect_role(settings.endpoint)
    chunks = make_chunks(_SOURCES, seed=settings.index)
    pushes = Pushes(server, settings.sampled_by_server)
    pushes.send(chunks, settings.fill_chunks)
    version, graph = _first_policy(server)
    clock = PhaseClock(ACTOR_PHASES)
    if settings.kind == "breakout":
        acting: _Synthetic | _Breakout = _Breakout(settings, pushes, clock, version, graph)
    else:
        acting = _Synthetic(settings, pushes, clock, chunks)
    print("ready", flush=True)
    record = _measure(acting, server, pushes, clock, version)
    acting.close()
    pushes.send(chunks, settings.left_chunks)
    print(json.dumps(record | {"all_transitions": pushes.all_transitions}), flush=True)
    server.close()


if __name__ == "__main__":
    main()
