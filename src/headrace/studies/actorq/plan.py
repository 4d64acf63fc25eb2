"""What each scale measures."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from headrace.machine import available_cores
from headrace.networks.precision import Precision
from headrace.studies.actorq.acting import ActingCase
from headrace.studies.actorq.cases import PUBLISHED_HIDDEN, TrainingCase, training_case
from headrace.studies.actorq.crossover import CrossoverCase
from headrace.studies.actorq.options import ActorQOptions
from headrace.studies.actorq.tasks import TASKS
from headrace.studies.base import Scale

__all__ = ["PUBLICATIONS_PER_SECOND", "Plan", "make_plan"]

PUBLICATIONS_PER_SECOND = 4.0
"""About one for every 30 steps of the published fp32 actor, 10 ms each: so often did the published learner publish."""
_PULL_PERIODS = (30, 300)
_PULL_TASK = "cartpole-balance"
_THROUGHPUT_TASKS = ("cartpole-balance", "cheetah-run")
_ALL: tuple[Precision, ...] = ("fp32", "fp16", "int8")
_TWO: tuple[Precision, ...] = ("fp32", "int8")


@dataclass(frozen=True)
class Plan:
    """Every case, in the order in which they are measured; rounds interleave what is compared."""

    scale: Scale
    throughput: tuple[ActingCase, ...]
    breakdown: tuple[ActingCase, ...]
    crossover: tuple[CrossoverCase, ...]
    pull_periods: tuple[TrainingCase, ...]
    training: tuple[TrainingCase, ...]


def make_plan(scale: Scale, options: ActorQOptions, device: str) -> Plan:
    """The cases of a scale and of these tasks; `device` is the learner's, "cpu" or "cuda"."""
    small = scale == "small"
    seeds = range(options.chosen_seeds(scale))
    precisions = _TWO if small else _ALL
    training = [
        training_case(task, precision, seed, device)
        for task, seed, precision in product(options.chosen_tasks(scale), seeds, precisions)
    ]
    widths = (64, 256, 1024, 2048) if small else (64, 128, 256, 512, 1024, 2048)
    batches = (1, 8, 64) if small else (1, 2, 4, 8, 16, 32, 64)
    return Plan(
        scale=scale,
        throughput=tuple(_throughput(small)),
        breakdown=tuple(_breakdown(small)),
        crossover=tuple(CrossoverCase(width, batch) for width, batch in product(widths, batches)),
        pull_periods=tuple(_pull_periods(scale, device, seeds)),
        training=tuple(training),
    )


def _acting(task: str, precision: Precision, actors: int, seconds: float, number: int) -> ActingCase:
    return ActingCase(
        task=task,
        environment=TASKS[task].environment,
        hidden=PUBLISHED_HIDDEN,
        precision=precision,
        actors=actors,
        pull_period=100,
        publications_per_second=0.0,
        seconds=seconds,
        round=number,
    )


def _throughput(small: bool) -> Iterator[ActingCase]:
    """Rounds outermost: a slow minute hits all precisions alike."""
    actors = (1, 4) if available_cores() > 4 and not small else (1,)
    rounds, seconds = (2, 3.0) if small else (5, 10.0)
    for number, task, count, precision in product(range(rounds), _THROUGHPUT_TASKS, actors, _TWO if small else _ALL):
        yield _acting(task, precision, count, seconds, number)


def _breakdown(small: bool) -> Iterator[ActingCase]:
    rounds, seconds = (1, 4.0) if small else (3, 15.0)
    for number, period, precision in product(range(rounds), _PULL_PERIODS, _ALL):
        case = _acting(_PULL_TASK, precision, 1, seconds, number)
        yield dataclasses.replace(case, pull_period=period, publications_per_second=PUBLICATIONS_PER_SECOND)


def _pull_periods(scale: Scale, device: str, seeds: range) -> Iterator[TrainingCase]:
    """int8 actors that look for newer policies seldom or often."""
    small = scale == "small"
    periods = (1, 100, 10_000) if small else (1, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    for seed, period in product((0,) if small else seeds, periods):
        case = training_case(_PULL_TASK, "int8", seed, device)
        yield dataclasses.replace(case, topology=dataclasses.replace(case.topology, pull_period=period))
