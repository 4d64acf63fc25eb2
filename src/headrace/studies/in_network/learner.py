"""The process of the learner: DQN updates of the Nature network on batches from the variant's source.

It publishes a policy, says "open", warms up, says "ready", learns, and answers with its measurements in the window and
the rate of one large pull, for which it waits for one more line.
"""

import sys
import time
from typing import Any

from headrace.algorithms.dqn import DQN
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.algorithms.engine import limit_torch_threads
from headrace.networks import PolicyGraph
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import POLICY
from headrace.servers.base import RunServer
from headrace.servers.connect import open_server
from headrace.studies.in_network.background_calls import BackgroundCalls
from headrace.studies.in_network.case import LEARNER_PHASES, LearnerSettings
from headrace.studies.in_network.experience import DISCOUNT, N_STEP, SPEC
from headrace.studies.in_network.sources import Source, open_source
from headrace.studies.processes import Window, answer, received

__all__: list[str] = []

_WARM_UP_UPDATES = 3
_MIN_SIZE = 3000  # transitions in the table at the first update
_PUBLISH_PERIOD = 20  # updates


class _Learner:
    """Makes one update after another and times their phases."""

    def __init__(self, settings: LearnerSettings, server: RunServer) -> None:
        config = DQN(
            network="nature", hidden=(512,), dueling=True, n_step=N_STEP, discount=DISCOUNT,
            batch_size=settings.batch_size, publish_period=_PUBLISH_PERIOD,
        )  # fmt: skip
        self._server = server
        self._calls = BackgroundCalls("publish")
        self._updater = DQNUpdater(config, SPEC, "cpu", seed=0)
        self._graph = PolicyGraph(self._updater.architecture)
        self.clock = PhaseClock(LEARNER_PHASES)
        self.updates = 0
        self.parameter_bytes = self.publish()

    def publish(self) -> int:
        """Encodes the policy and has a thread publish it; returns its bytes."""
        policy = self._graph.serialize(self._updater.weights())
        self._calls.send(self._server.publish, POLICY.name, policy, self.updates + 1)
        return len(policy)

    def close(self) -> None:
        """Sends pending data."""
        self._calls.finish()
        self._calls.close()

    def update(self, source: Source) -> dict[str, float]:
        """Makes one update; returns the seconds of each phase."""
        before = dict(self.clock.seconds)
        batch = source.next(self.clock)
        self.clock.enter("transfer")
        tensors = self._updater.transfer(batch)
        self.clock.enter("train")
        update = self._updater.update(tensors)
        self.clock.enter("priorities")
        source.table.update_priorities(batch.key, update.priority)
        self.updates += 1
        if self.updates % _PUBLISH_PERIOD == 0:
            self.clock.enter("publish")
            self.publish()
        self.clock.enter("other")
        return {phase: self.clock.seconds[phase] - before[phase] for phase in LEARNER_PHASES}


def _measure(learner: _Learner, source: Source) -> dict[str, Any]:
    """Learns until the end of the window; returns the measurements in it."""
    window = received(Window)
    learner.clock.enter("other")
    updates: list[dict[str, float]] = []
    started, begun = time.perf_counter(), False
    while (now := time.monotonic()) < window.end:
        if not begun and now >= window.begin:
            updates, started, begun = [], time.perf_counter(), True
        updates.append(learner.update(source))
    return {
        "seconds": time.perf_counter() - started,
        "updates": {phase: [spent[phase] for spent in updates] for phase in LEARNER_PHASES},
        "parameter_bytes": learner.parameter_bytes,
    }


def _run() -> None:
    settings = received(LearnerSettings)
    server = open_server(settings.endpoint)
    source = open_source(settings.variant, server, settings.batch_size, _MIN_SIZE)
    try:
        learner = _Learner(settings, server)
        limit_torch_threads(1)
        answer("open")
        for _ in range(_WARM_UP_UPDATES):
            learner.update(source)
        answer("ready")
        record = _measure(learner, source)
        sys.stdin.readline()
        learner.close()
        record["pull"] = source.pull(settings.pull_bytes)._asdict()
        answer(record)
    finally:
        source.close()
        server.close()


if __name__ == "__main__":
    _run()
