"""`headrace study concurrency`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from headrace.environments import describe
from headrace.errors import require
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.base import Measured, Options, Part, Plan, Say, Scale, Study
from headrace.studies.comparisons import Comparison
from headrace.studies.concurrency import cases
from headrace.studies.concurrency.comparisons import compare
from headrace.studies.concurrency.measure import COLUMNS, Case, measure
from headrace.studies.sheet import Rows, Sheet

__all__ = ["Concurrency", "ConcurrencyOptions"]

_PARTS = ("runs", "throughput", "ablation", "faults")
_ALGORITHMS = ("dqn", "a3c", "dyna-q")
_TOPOLOGIES = ("lock", "hogwild", "parameter-server", "ad-psgd")
_MANY_WORKERS = (16, 32)
"""Numbers of workers at full scale that need as many cores."""
_SIMULATED_DEFAULTS: Mapping[Scale, Mapping[str, Any]] = {
    "small": {"parts": (cases.SIMULATED,), "workers": (1, 2, 4, 8), "seeds": 1},
    "full": {"parts": (cases.SIMULATED,), "workers": (1, 2, 4, 8, 16, 32, 64), "seeds": 10},
}
"""The defaults that differ from those of real runs."""
_FACTOR_SEEDS = 10
_FIXED = {
    "algorithms": {"ablation", "faults", cases.FACTORS},
    "topologies": {"ablation", cases.FACTORS},
    "workers": {"ablation", "faults", cases.FACTORS},
}
"""Parts whose cases an option does not change."""


@dataclass(frozen=True)
class ConcurrencyOptions(Options):
    """The parts and cases to run, and the number of runs."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = ()
    """Any of runs, throughput, ablation, faults and factors; by default the first two at small scale, all but factors
    at full."""
    algorithms: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Any of dqn, a3c and dyna-q; by default dqn at small scale, all at full."""
    topologies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Any of lock, hogwild, parameter-server and ad-psgd; by default hogwild at small scale, all at full."""
    workers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")] = ()
    """Numbers of workers; by default 1 2 4 at small scale; at full also 8, and 16 32 if there are as many cores."""
    seeds: int | None = None
    """Runs of each case; by default 1 at small scale, 3 at full (factors, and simulated at full scale: 10)."""
    simulated: bool = False
    """Runs to 200 in simulated time, with a core for each worker; by default 1 2 4 8 workers, at full scale to 64."""
    known: ClassVar = {"parts": (*_PARTS, cases.FACTORS), "algorithms": _ALGORITHMS, "topologies": _TOPOLOGIES}
    defaults: ClassVar = {
        "small": {
            "parts": _PARTS[:2], "algorithms": ("dqn",), "topologies": ("hogwild",), "workers": (1, 2, 4), "seeds": 1,
        },
        "full": {
            "parts": _PARTS, "algorithms": _ALGORITHMS, "topologies": _TOPOLOGIES, "workers": (1, 2, 4, 8), "seeds": 3,
        },
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        require("parts", " ".join(self.parts), not (self.parts and self.simulated), "left out with --simulated")
        for field in ("algorithms", "topologies", "workers"):
            text, fixed = " ".join(map(str, getattr(self, field))), _FIXED[field]
            only = bool(self.parts) and set(self.parts) <= fixed
            require(field, text, not (only and text), f"left out with --parts {' '.join(self.parts)}: they are fixed")
        if self.simulated:
            able = "dqn or a3c with --simulated, and a3c only if topologies has hogwild or is left out"
            shares = not self.topologies or "hogwild" in self.topologies
            for name in self.algorithms:
                require("algorithms", name, name == "dqn" or (name == "a3c" and shares), able)
            for count in self.workers:
                require("workers", count, cases.SUM % count == 0, f"a divisor of {cases.SUM} with --simulated")

    def chosen(self, field: str, scale: Scale) -> Any:
        """Numbers of workers in ascending order; the default ones of real runs are limited by this machine's cores."""
        found = super().chosen(field, scale)
        if self.simulated and not getattr(self, field):
            found = _SIMULATED_DEFAULTS[scale].get(field, found)
        if field != "workers":
            return found
        more = _MANY_WORKERS if scale == "full" and not (self.workers or self.simulated) else ()
        return sorted([*found, *(count for count in more if count <= available_cores())])


def _measure(case: Case, folder: Path) -> Measured:
    return Measured(measure(case, folder))


class Concurrency(Study):
    """Workers that act and learn, by number and by how they share parameters."""

    name = "concurrency"
    summary = "lock, HogWild, parameter server, AD-PSGD, A3C and Dyna-Q against one process (LunarLander-v3 to 200)"
    options = ConcurrencyOptions
    parts = tuple(
        Part(name, COLUMNS, _measure, simulated=name in (cases.SIMULATED, cases.FACTORS))
        for name in (*_PARTS, cases.SIMULATED, cases.FACTORS)
    )
    told: ClassVar = {
        "solved": "solved: {}",
        "seconds_to_score": "{:,.0f} s",
        "steps_to_score": "{:,} steps",
        "updates_per_second": "{:,.0f} updates/s",
        "score": "score {:,.1f}",
        "samples_per_step": "{:.3g} samples per step",
    }

    def plan(self, scale: Scale, options: ConcurrencyOptions) -> Plan:
        """Rounds interleave the cases."""
        algorithms, topologies, workers, count = (
            options.chosen(field, scale) for field in ("algorithms", "topologies", "workers", "seeds")
        )
        seeds = range(count)
        return {
            "runs": tuple(_runs(algorithms, topologies, workers, seeds)),
            "throughput": tuple(_throughput(algorithms, topologies, workers, seeds)),
            "ablation": tuple(case for seed in seeds for case in cases.ablation_cases(seed)),
            "faults": tuple(
                cases.fault_case(topology, seed, disturbed=disturbed)
                for seed, topology, disturbed in product(seeds, topologies, (False, True))
            ),
            cases.SIMULATED: tuple(_simulated(algorithms, topologies, workers, seeds)),
            cases.FACTORS: tuple(
                case for seed in range(options.seeds or _FACTOR_SEEDS) for case in cases.factor_cases(seed)
            ),
        }

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """Raises EnvironmentFault, instead of one for each case, if Box2D is not installed."""
        del sheets, output, say
        describe(cases.ENVIRONMENT)
        return plan, []

    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Comparison]:
        """Every required figure."""
        return compare(*(rows[part] for part in _PARTS))  # nothing is required of the other parts


def _plans(algorithm: str) -> bool:
    """Whether an algorithm has a world model: its processes are planners, which share no parameters."""
    return preset(cases.ENVIRONMENT, algorithm).algorithm.world_model is not None


def _replays(algorithm: str) -> bool:
    return preset(cases.ENVIRONMENT, algorithm).algorithm.replay is not None


def _runs(algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range) -> Iterator[Case]:
    """Seeds are outermost: the first seed of every case comes first, and a slow hour affects all cases."""
    for seed in seeds:
        for algorithm in algorithms:
            yield cases.run_case(algorithm, "serial", 1, seed)
        for count, algorithm in product(workers, algorithms):
            if not _plans(algorithm):
                for topology in topologies:
                    yield cases.run_case(algorithm, topology, count, seed)
            elif count > 1:  # one acts, and at least one plans
                yield cases.dyna_q_case(count, seed)


def _simulated(
    algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range
) -> Iterator[Case]:
    """A3C shares parameters without a lock only, as published."""
    able = {name: [each for each in topologies if _replays(name) or each == "hogwild"] for name in algorithms}
    learning = [name for name in algorithms if not _plans(name) and able[name]]
    for seed, shared_out, algorithm in product(seeds, (False, True), learning):
        yield cases.simulated_case(algorithm, "serial", 1, seed, shared_out=shared_out)
        for count, topology in product(workers, able[algorithm]):
            yield cases.simulated_case(algorithm, topology, count, seed, shared_out=shared_out)


def _throughput(
    algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range
) -> Iterator[Case]:
    for number, algorithm in product(seeds, [name for name in algorithms if not _plans(name)]):
        yield cases.throughput_case(algorithm, "serial", 1, number)
        for topology, count in product(topologies, workers):
            yield cases.throughput_case(algorithm, topology, count, number)
