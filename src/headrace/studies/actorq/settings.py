"""The settings of the runs next to the published ones, and the limits of the comparison."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.fields import write_fields
from headrace.report.formats import counted
from headrace.studies.actorq.cases import PUBLICATIONS_PER_SECOND, PUBLISHED_HIDDEN, TrainingCase
from headrace.studies.actorq.comparisons import PRECISIONS, tasks_of
from headrace.studies.actorq.tasks import TASKS, settings
from headrace.studies.page import table
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, middle

__all__ = ["limits", "settings_table"]

_HELD = 0.25
"""Share of a side's time spent waiting for the other, above which the other is the bottleneck."""
_PUBLISHED_ACTORS = 4


def limits(cases: Sequence[TrainingCase], training: Rows) -> list[str]:
    """Differences from the published experiment, by task, and the bottleneck of the runs."""
    found = []
    if any(case.device == "cpu" for case in cases):
        found.append(
            "There is no GPU here. At the published size, 3 × 2048, actors would wait for the learner in every "
            "precision: most tasks are trained with other sizes. Actors without a learner are measured at the "
            "published size."
        )
    found += _settings(cases)
    found += _bottlenecks(training)
    if any(case.task == "CartPole-v1" for case in cases):
        found.append(
            "CartPole-v1: the published reward, 198.22, is the target, but looks like that of CartPole-v0, which "
            "ends an episode at 200; v1 ends it at 500."
        )
    found.append(
        "Breakdown: policies are published by a synthetic learner, "
        f"{PUBLICATIONS_PER_SECOND:g} a second, through the same publisher and quantizer as a real one's."
    )
    found.append(
        "Published seconds are of another machine: compare ratios. The published runs were evaluated on the training "
        "clock, and their actor applied one activation more than their learner."
    )
    return found


def _settings(cases: Sequence[TrainingCase]) -> list[str]:
    """Sizes that differ from the published ones, each with its tasks."""

    def described(case: TrainingCase) -> str:
        hidden, topology = case.algorithm.hidden, case.topology
        size = " (published: 3 × 2048)" if hidden != PUBLISHED_HIDDEN else ""
        actors = f" (published: {_PUBLISHED_ACTORS} actors)" if topology.actors != _PUBLISHED_ACTORS else ""
        return (
            f"a policy of {'x'.join(map(str, hidden))}{size}, {counted(topology.acting_processes, 'actor')} of "
            f"{counted(topology.environments_each, 'environment')}{actors}, "
            f"{case.algorithm.samples_per_step:g} samples per environment step"
        )

    return [f"{', '.join(tasks)}: {settings}." for settings, tasks in _tasks_by(described, cases).items()]


def _bottlenecks(training: Rows) -> list[str]:
    """The bottleneck in each task's runs."""
    found = []
    for task in tasks_of(training):
        parts = []
        for precision in PRECISIONS:
            if these := chosen(training, task=task, precision=precision):
                actors, learner = middle(these, "actor_push"), middle(these, "learner_wait")
                parts.append(
                    f"{precision}: {_bottleneck(actors, learner)} (actors waited for the learner for {actors:.0%} of "
                    f"their time, the learner for them for {learner:.0%})"
                )
        found.append(f"{task}, {'; '.join(parts)}.")
    return found


def _bottleneck(actors_waited: float, learner_waited: float) -> str:
    if max(actors_waited, learner_waited) <= _HELD:
        return "neither side is the bottleneck"
    if actors_waited > learner_waited:
        return "learner-bound, so the actors' precision has little effect on the time to reward"
    return "actor-bound"


def settings_table(cases: Sequence[TrainingCase]) -> str:
    """The published settings next to those of the runs."""
    names = [(row["setting"], row["d4pg"], row["dqn"]) for row in settings()]
    lines = [
        (name.replace("_", " "), d4pg or "–", _of_all(name, cases, "d4pg"), dqn or "–", _of_all(name, cases, "dqn"))
        for name, d4pg, dqn in [*names, ("samples per environment step", "", "")]
    ]
    return table(("", "published D4PG", "ours", "published DQN", "ours"), lines)


def _of_all(name: str, cases: Sequence[TrainingCase], algorithm: str) -> str:
    """A setting of an algorithm's runs: one value, or each value with its tasks."""
    these = [case for case in cases if TASKS[case.task].algorithm == algorithm]
    found = _tasks_by(lambda case: _setting(name, case), these)
    if len(found) < 2:
        return next(iter(found), "–")
    return "; ".join(f"{value} ({', '.join(tasks)})" for value, tasks in found.items())


def _tasks_by(text: Callable[[TrainingCase], str], cases: Sequence[TrainingCase]) -> dict[str, list[str]]:
    """The tasks of the cases by a text about each case."""
    found: dict[str, dict[str, None]] = {}
    for case in cases:
        found.setdefault(text(case), {})[case.task] = None
    return {each: list(tasks) for each, tasks in found.items()}


def _setting(name: str, case: TrainingCase) -> str:
    """A published setting's counterpart in a run; an en dash if there is none."""
    algorithm, topology = case.algorithm, case.topology
    known: dict[str, Any] = {
        "policy": "x".join(map(str, algorithm.hidden)),
        "learning_rate": algorithm.learning_rate,
        "batch_size": algorithm.batch_size,
        "discount": algorithm.discount,
        "n_step": algorithm.n_step,
        "target_update_period": algorithm.target_update_period,
        "replay_capacity": algorithm.replay_capacity,
        "replay_min": algorithm.learning_starts,
        "priority_exponent": algorithm.priority_exponent if algorithm.prioritized else "0 (uniform)",
        "importance_exponent": algorithm.importance_exponent if algorithm.prioritized else "–",
        "actors": f"{topology.actors}, {topology.envs_per_actor} environment(s) each",
        "pull_period_steps": topology.pull_period,
        "samples per environment step": algorithm.samples_per_step,
    }
    own = write_fields(algorithm)
    if "critic_hidden" in own:
        widths = ",".join(map(str, own["critic_hidden"]))
        known["critic"] = f"LayerNorm {widths}; {own['atoms']} atoms; {own['value_min']:g}..{own['value_max']:g}"
        known["exploration"] = f"gaussian, sigma along {'..'.join(f'{sigma:g}' for sigma in own['sigmas'])}"
    if "epsilon_base" in own:
        known["exploration"] = f"epsilon {own['epsilon_base']:g} ** (1 + {own['epsilon_exponent']:g} i / (N - 1))"
    value = known.get(name, "–")
    return f"{value:g}" if isinstance(value, float) else str(value)
