"""Aggregates the reports of the roles into progress snapshots."""

from collections import deque
from collections.abc import Mapping
from statistics import fmean

from headrace.clock import monotonic
from headrace.report.progress import Progress
from headrace.roles.base import Learning
from headrace.roles.clock import ACTOR_PHASES, LEARNER_PHASES
from headrace.roles.messages import Acted
from headrace.settings import RunConfig
from headrace.training.evaluation import Evaluations, Moment

__all__ = ["Monitor"]

_NEAR_GREEDY = 0.02
_SHORTEST_SECONDS = 0.1  # of training; shorter intervals give no meaningful rate
_SILENT_SECONDS = 5.0
"""An actor that has sent no report for this long counts as gone."""
_HELD_PHASES = ("push", "blocked")
"""Phases in which a server can hold an actor: Redis while it pushes."""
_WAITS = 0.25  # share of waiting in one side's time above which the other side is the bottleneck


class Monitor:
    """Counts aggregated over all actors, and time per phase of all roles. One thread."""

    def __init__(self, config: RunConfig, actors: int, start: Moment, episodes: int) -> None:
        self.environment_steps = start.environment_steps
        self.episodes = episodes
        self.actor_seconds = dict.fromkeys(ACTOR_PHASES, 0.0)
        self._config = config
        self._actors = actors
        self._workers = config.topology.has_workers
        self._returns: deque[float] = deque(maxlen=100)
        self._greedy: deque[float] = deque(maxlen=20)
        self._alive_at_end: int | None = None
        self._last_report: dict[int, float] = {}  # monotonic() of each actor's last report
        self._off_clock: dict[int, float] = {}  # seconds that each actor waited for evaluations, not yet subtracted
        self._last = start
        self._rates = (0.0, 0.0)
        self._last_actor = dict(self.actor_seconds)
        self._last_learner = dict.fromkeys(LEARNER_PHASES, 0.0)
        self._actor_times = dict(self.actor_seconds)
        self._learner_times = dict(self._last_learner)

    def restore(self, actor_seconds: Mapping[str, float], learner_seconds: Mapping[str, float]) -> None:
        """Continues with the times of a resumed run."""
        self.actor_seconds |= actor_seconds
        self._last_actor, self._last_learner = dict(self.actor_seconds), dict(learner_seconds)

    def add(self, index: int, acted: Acted) -> None:
        """Adds what one actor has done since the last call for it."""
        self.environment_steps += acted["steps"]
        self.episodes += acted["episodes"]
        for return_, _, epsilon in acted["returns"]:
            self._returns.append(return_)
            if epsilon <= _NEAR_GREEDY:
                self._greedy.append(return_)
        for phase, seconds in acted["seconds"].items():
            off_clock = min(seconds, self._off_clock.get(index, 0.0)) if phase in _HELD_PHASES else 0.0
            if off_clock:
                self._off_clock[index] -= off_clock
            self.actor_seconds[phase] += seconds - off_clock
        self._last_report[index] = monotonic()

    def skip(self, seconds: float) -> None:
        """Records that the actors were held, as by an evaluation: these seconds of waiting are not training time."""
        for index in self._last_report:
            self._off_clock[index] = self._off_clock.get(index, 0.0) + seconds

    def forget(self, index: int) -> None:
        """Removes an actor that ended."""
        self._last_report.pop(index, None)
        self._off_clock.pop(index, None)

    def keep_count_of_actors(self) -> None:
        """Keeps the number of actors that are alive: from now on they end because they are asked to."""
        self._alive_at_end = self._count_alive()

    def _count_alive(self) -> int:
        return sum(monotonic() - reported < _SILENT_SECONDS for reported in self._last_report.values())

    @property
    def near_greedy_return(self) -> float | None:
        """Mean return of the last 20 episodes in environments that hardly explore; None before there are 20."""
        return fmean(self._greedy) if len(self._greedy) == self._greedy.maxlen else None

    def clear_near_greedy(self) -> None:
        """Discards the collected returns of these episodes."""
        self._greedy.clear()

    def snapshot(
        self, seconds: float, learner: Learning, stats: Mapping[str, float], evaluations: Evaluations
    ) -> Progress:
        """Current progress of the run; `stats` is the table's.

        Rates and shares cover the time since the last one, and are those of the last one if the clock stood still.
        """
        elapsed = seconds - self._last.seconds
        if elapsed > _SHORTEST_SECONDS:
            self._rates = (
                (self.environment_steps - self._last.environment_steps) / elapsed,
                (learner.steps - self._last.learner_steps) / elapsed,
            )
            self._actor_times = _shares(self.actor_seconds, self._last_actor)
            self._learner_times = _shares(learner.clock.seconds, self._last_learner)
            self._last = Moment(self.environment_steps, learner.steps, seconds)
            self._last_actor = dict(self.actor_seconds)
            self._last_learner = dict(learner.clock.seconds)
        shares = self._actor_times, self._learner_times
        return Progress(
            seconds=seconds,
            environment_steps=self.environment_steps,
            learner_steps=learner.steps,
            episodes=self.episodes,
            mean_return=fmean(self._returns) if self._returns else None,
            near_greedy_return=self.near_greedy_return,
            evaluation_return=evaluations.last.mean if evaluations.last else None,
            best_evaluation=evaluations.best,
            steps_per_second=self._rates[0],
            learner_steps_per_second=self._rates[1],
            samples_per_insert=(stats["samples_per_insert"] or None) if learner.steps else None,  # 0: no insert yet
            staleness=learner.staleness if learner.steps else None,
            loss=learner.loss if learner.steps else None,
            replay_size=int(stats["size"]),
            replay_capacity=int(stats["capacity"]),
            replay_bytes=int(stats["used_bytes"]),
            policy_version=learner.version,
            bottleneck=None if self._workers else _bottleneck(*shares, learner.steps),
            actor_times=self._actor_times,
            learner_times=self._learner_times,
            actors_alive=self._count_alive() if self._alive_at_end is None else self._alive_at_end,
            actors_total=self._actors,
            role=self._config.topology.acting_kind,
            paused=evaluations.pending,
            steps_target=self._config.steps,
            time_target=self._config.time_limit_seconds,
            score_target=self._config.until_score,
        )


def _shares(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    differences = {phase: seconds - before[phase] for phase, seconds in now.items()}
    total = sum(differences.values())
    return {phase: difference / total if total > 0 else 0.0 for phase, difference in differences.items()}


def _bottleneck(actor_times: Mapping[str, float], learner_times: Mapping[str, float], learner_steps: int) -> str:
    """The bottleneck: the learner if actors wait to push, the actors if the learner waits for batches."""
    held = sum(actor_times[phase] for phase in _HELD_PHASES)
    if not learner_steps or learner_times["wait"] > max(_WAITS, held):
        return "actors"
    return "learner" if held > _WAITS else "balanced"
