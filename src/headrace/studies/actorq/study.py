"""`headrace study actorq`."""

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from headrace.environments.dm_control import ControlSuite
from headrace.machine import available_cores
from headrace.networks.precision import Precision
from headrace.studies.actorq import acting, simulated, training
from headrace.studies.actorq.acting import ActingCase, CrossoverCase
from headrace.studies.actorq.comparisons import compare, compare_simulated
from headrace.studies.actorq.training import PRECISIONS, PUBLISHED_HIDDEN, TASKS, TrainingCase, training_case
from headrace.studies.base import Measured, Options, Part, Plan, Say, Scale, Study, leave_out
from headrace.studies.comparisons import Comparison
from headrace.studies.sheet import Rows, Sheet

__all__ = ["ActorQ", "ActorQOptions"]

_PULL_PERIODS = (30, 300)
_PULL_TASK = "cartpole-balance"
_THROUGHPUT_TASKS = ("cartpole-balance", "cheetah-run")
_TWO: tuple[Precision, ...] = ("fp32", "int8")


@dataclass(frozen=True)
class ActorQOptions(Options):
    """The tasks to train, and the number of runs."""

    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK ...")] = ()
    """Tasks to train, such as CartPole-v1; by default cartpole-balance at small scale, all eleven at full."""
    seeds: int | None = None
    """Runs of each task and precision; by default 1 at small scale, 3 at full."""
    simulated: bool = False
    """Time to reward in simulated time alone, with four actors and a fast learner."""
    known: ClassVar = {"tasks": TASKS}
    defaults: ClassVar = {
        "small": {"tasks": ("cartpole-balance",), "seeds": 1},
        "full": {"tasks": tuple(TASKS), "seeds": 3},
    }


class ActorQ(Study):
    """Quantized actors against actors in full precision."""

    name = "actorq"
    summary = "actors in int8 and fp16 against fp32 around a full-precision learner (Krishnan et al., ActorQ)"
    options = ActorQOptions
    parts = (
        Part("throughput", acting.COLUMNS, lambda case, _: Measured(acting.measure_acting(case))),
        Part("breakdown", acting.COLUMNS, lambda case, _: Measured(acting.measure_acting(case))),
        Part("crossover", acting.CROSSOVER_COLUMNS, lambda case, _: Measured(acting.measure_crossover(case))),
        Part("pull_periods", training.RUN_COLUMNS, lambda *each: Measured(training.measure_training(*each).row)),
        Part("training", training.RUN_COLUMNS, training.measure_training, "curves"),
        Part("curves", training.CURVE_COLUMNS),
        Part("simulated", simulated.SIMULATED_COLUMNS, simulated.measure_simulated, "simulated_curves", simulated=True),
        Part("simulated_curves", simulated.SIMULATED_CURVE_COLUMNS),
    )
    told: ClassVar = {
        "steps_per_second": "{:,.0f} steps/s",
        "parameter_share": "{:.1%} on parameters",
        "refresh_ms": "installed {:.0f} ms after the publication",
        "fp32_us": "fp32 {:,.0f} µs",
        "int8_us": "int8 {:,.0f} µs",
        "seconds_to_reward": "target after {:,.0f} s",
        "final_return": "final score {:,.1f}",
    }

    def plan(self, scale: Scale, options: ActorQOptions) -> Plan:
        """Rounds interleave the cases; learners use a GPU if there is one."""
        from headrace.training.hardware import choose_device

        small, device = scale == "small", choose_device("auto")
        tasks, count = options.chosen("tasks", scale), options.chosen("seeds", scale)
        nothing: dict[str, tuple[Any, ...]] = {part.name: () for part in self.parts if part.measure}
        runs = tuple(product(tasks, range(count), _TWO if small else PRECISIONS))
        if options.simulated:
            cases = product(runs, simulated.SOURCES)
            return nothing | {
                "simulated": tuple(
                    simulated.simulated_case(task, precision, seed, costs) for (task, seed, precision), costs in cases
                )
            }
        widths = (64, 256, 1024, 2048) if small else (64, 128, 256, 512, 1024, 2048)
        batches = (1, 8, 64) if small else (1, 2, 4, 8, 16, 32, 64)
        return nothing | {
            "throughput": tuple(_throughput(small)),
            "breakdown": tuple(_breakdown(small)),
            "crossover": tuple(CrossoverCase(width, batch) for width, batch in product(widths, batches)),
            "pull_periods": tuple(_pull_periods(small, device, count)),
            "training": tuple(training_case(task, precision, seed, device) for task, seed, precision in runs),
        }

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """Leaves out cases if the control suite is missing; notes whether energy counters are."""
        del sheets, output, say
        why = "" if importlib.util.find_spec("dm_control") is not None else f'pip install "{ControlSuite.requirement}"'
        plan, notes = leave_out(plan, "cases of the control suite", why, _of_the_suite)
        no_energy = acting.Energy().why_not
        return plan, notes + ([f"energy is not available on this machine: {no_energy}"] if no_energy else [])

    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Comparison]:
        """Rates, times, shares and scores; nothing was published on the crossover and the pull periods."""
        return [
            *compare(rows["throughput"], rows["breakdown"], rows["training"], rows["curves"]),
            *compare_simulated(rows["simulated"], rows["simulated_curves"]),
        ]


def _of_the_suite(case: Any) -> bool:
    return str(getattr(case, "environment", "")).startswith(ControlSuite.prefix)


def _acting(task: str, precision: Precision, actors: int, seconds: float, number: int) -> ActingCase:
    environment = TASKS[task]["environment"]
    return ActingCase(task, environment, PUBLISHED_HIDDEN, precision, actors, 100, 0.0, seconds, number)


def _throughput(small: bool) -> Iterator[ActingCase]:
    """Rounds are outermost, so that a slow minute affects all precisions."""
    actors = (1, 4) if available_cores() > 4 and not small else (1,)
    rounds, seconds = (2, 3.0) if small else (5, 10.0)
    for number, task, count, precision in product(
        range(rounds), _THROUGHPUT_TASKS, actors, _TWO if small else PRECISIONS
    ):
        yield _acting(task, precision, count, seconds, number)


def _breakdown(small: bool) -> Iterator[ActingCase]:
    rounds, seconds = (1, 4.0) if small else (3, 15.0)
    for number, period, precision in product(range(rounds), _PULL_PERIODS, PRECISIONS):
        case = _acting(_PULL_TASK, precision, 1, seconds, number)
        yield dataclasses.replace(case, pull_period=period, publications_per_second=acting.PUBLICATIONS_PER_SECOND)


def _pull_periods(small: bool, device: str, seeds: int) -> Iterator[TrainingCase]:
    """int8 actors that poll for newer policies rarely or often."""
    periods = (1, 100, 10_000) if small else (1, 10, 30, 100, 300, 1_000, 3_000, 10_000)
    for seed, period in product(range(1 if small else seeds), periods):
        case = training_case(_PULL_TASK, "int8", seed, device)
        yield dataclasses.replace(case, topology=dataclasses.replace(case.topology, pull_period=period))
