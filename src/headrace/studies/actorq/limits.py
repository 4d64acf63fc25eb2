"""What this machine, and these settings, can't show of the published experiment."""

from collections.abc import Sequence

from headrace.studies.actorq.cases import PUBLISHED_HIDDEN, TrainingCase
from headrace.studies.actorq.comparisons import PRECISIONS, Rows, tasks_of
from headrace.studies.actorq.plan import PUBLICATIONS_PER_SECOND
from headrace.studies.statistics import median

__all__ = ["limits"]

_HELD = 0.25
"""Share of a side's time in waits for the other, above which the other holds the run."""
_PUBLISHED_ACTORS = 4


def limits(cases: Sequence[TrainingCase], training: Rows) -> list[str]:
    """What is not the published experiment, task by task, and which side was the bottleneck of the runs."""
    found = []
    if any(case.device == "cpu" for case in cases):
        found.append(
            "There is no GPU here. At the published size, 3 × 2048, a learner on a processor does few updates a second "
            "and its actors wait, whatever they compute in: most tasks are trained at sizes of their own. "
            "Actors' throughput and breakdown are measured at the published size, without a learner."
        )
    found += _settings(cases)
    found += _holders(training)
    if any(case.task == "CartPole-v1" for case in cases):
        found.append(
            "CartPole-v1: the published reward of “Cartpole (Gym)”, 198.22, looks like that of CartPole-v0, which ends "
            "an episode at 200; ours is v1, which ends it at 500. The target is the published reward all the same."
        )
    found.append(
        "Breakdown: policies are published by a synthetic learner, "
        f"{PUBLICATIONS_PER_SECOND:g} a second, through the same publisher and quantizer as a real one's."
    )
    found.append(
        "Published seconds are those of another machine; what can be compared are ratios. The published runs were "
        "evaluated on the training clock, and their torch actor applied one activation more than their learner."
    )
    return found


def _settings(cases: Sequence[TrainingCase]) -> list[str]:
    """The sizes that differ from the published ones, each with its tasks."""
    tasks: dict[str, dict[str, None]] = {}
    for case in cases:
        hidden, topology = case.algorithm.hidden, case.topology
        parts = [
            f"a policy of {'x'.join(map(str, hidden))}" + (" (published: 3 × 2048)" * (hidden != PUBLISHED_HIDDEN))
        ]
        actors = f"{topology.actors} actor{'s' if topology.actors != 1 else ''} of {topology.envs_per_actor} "
        parts.append(actors + f"environment{'s' if topology.envs_per_actor > 1 else ''}")
        if topology.actors != _PUBLISHED_ACTORS:
            parts[-1] += f" (published: {_PUBLISHED_ACTORS} actors)"
        parts.append(f"{case.algorithm.samples_per_step:g} samples per environment step")
        tasks.setdefault(", ".join(parts), {})[case.task] = None
    return [f"{', '.join(those)}: {settings}." for settings, those in tasks.items()]


def _holders(training: Rows) -> list[str]:
    """Who waited for whom in each task's runs."""
    found = []
    for task in tasks_of(training):
        parts = []
        for precision in PRECISIONS:
            these = [row for row in training if (row["task"], row["precision"]) == (task, precision)]
            if these:
                actors, learner = (median([row[side] for row in these]) for side in ("actor_push", "learner_wait"))
                parts.append(
                    f"{precision}: {_holder(actors, learner)} (actors waited for the learner for {actors:.0%} of their "
                    f"time, the learner for them for {learner:.0%})"
                )
        found.append(f"{task}, {'; '.join(parts)}.")
    return found


def _holder(actors_waited: float, learner_waited: float) -> str:
    if max(actors_waited, learner_waited) <= _HELD:
        return "neither side holds the run"
    if actors_waited > learner_waited:
        return "the learner holds the run, and what actors compute in hardly decides the time to reward"
    return "the actors hold the run"
