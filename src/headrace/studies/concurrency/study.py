"""`headrace study concurrency`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import tyro

from headrace.algorithms.config import Algorithm
from headrace.environments import describe
from headrace.errors import require
from headrace.launch.config import Simulated
from headrace.machine import available_cores
from headrace.settings import RunConfig, preset
from headrace.studies.base import Measured, Options, Part, Plan, Say, Scale, Study
from headrace.studies.comparisons import Comparison
from headrace.studies.concurrency.comparisons import compare
from headrace.studies.concurrency.measure import COLUMNS, LATER_COLUMNS, Case, measure, remake
from headrace.studies.sheet import Rows, Sheet
from headrace.topologies.config import Apex, Topology, TopologyName

__all__ = [
    "Concurrency", "ConcurrencyOptions", "ablation_cases", "dyna_q_case", "fault_case", "run_case", "simulated_case",
    "throughput_case",
]  # fmt: skip

_PARTS = ("runs", "throughput", "ablation", "faults")
_SIMULATED = "simulated"
_ALGORITHMS = ("dqn", "a3c", "dyna-q")
_TOPOLOGIES = ("lock", "hogwild", "parameter-server", "ad-psgd")
_MANY_WORKERS = (16, 32)
"""Numbers of workers at full scale that need as many cores."""
_SIMULATED_DEFAULTS: Mapping[Scale, Mapping[str, Any]] = {
    "small": {"parts": (_SIMULATED,), "workers": (1, 2, 4, 8), "seeds": 1},
    "full": {"parts": (_SIMULATED,), "workers": (1, 2, 4, 8, 16, 32, 64), "seeds": 10},
}
"""The defaults that differ from those of real runs."""
_SUM = 64
"""Environments of all workers in the simulated runs in which more workers have fewer each."""
_ENVIRONMENT = "LunarLander-v3"
_FAULT_WORKERS = 4
_NEVER_SECONDS = 1e9
_TO_TARGET = {
    "until_score": 200.0,
    "time_limit_seconds": 900.0,
    "evaluation_period_seconds": 1.0,
    "evaluation_period_steps": 10_000,  # about a second of a serial run
    "checkpoint_period_seconds": _NEVER_SECONDS,
    "device": "cpu",
}
_THROUGHPUT = {
    "until_score": None,
    "time_limit_seconds": 20.0,
    "evaluation_period_seconds": _NEVER_SECONDS,
    "evaluation_period_steps": int(_NEVER_SECONDS),
    "final_evaluation_episodes": 0,
}
_ABLATION = {"steps": 200_000, "time_limit_seconds": 3_600.0, "evaluation_period_steps": 5_000}
"""More time than for other runs: planning alternates with acting, which is slow, and only steps are compared."""
_FAULTS = {"until_score": None, "steps": 200_000, "evaluation_period_seconds": _NEVER_SECONDS}


@dataclass(frozen=True)
class ConcurrencyOptions(Options):
    """The parts and cases to run, and the number of runs."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = ()
    """Any of runs, throughput, ablation and faults; by default the first two at small scale, all at full."""
    algorithms: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Any of dqn, a3c and dyna-q; by default dqn at small scale, all at full."""
    topologies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Any of lock, hogwild, parameter-server and ad-psgd; by default hogwild at small scale, all at full."""
    workers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")] = ()
    """Numbers of workers; by default 1 2 4 at small scale; at full also 8, and 16 32 if there are as many cores."""
    seeds: int | None = None
    """Runs of each case; by default 1 at small scale, 3 at full (simulated: 10)."""
    simulated: bool = False
    """Runs to 200 in simulated time, with a core for each worker; by default 1 2 4 8 workers, at full scale to 64."""
    known: ClassVar = {"parts": _PARTS, "algorithms": _ALGORITHMS, "topologies": _TOPOLOGIES}
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

    def chosen(self, field: str, scale: Scale) -> Any:
        """Numbers of workers in ascending order; the default ones of real runs are limited by this machine's cores."""
        found = super().chosen(field, scale)
        if self.simulated and not getattr(self, field):
            found = _SIMULATED_DEFAULTS[scale].get(field, found)
        if field != "workers":
            return found
        more = _MANY_WORKERS if scale == "full" and not (self.workers or self.simulated) else ()
        return sorted([*found, *(count for count in more if count <= available_cores())])


class Concurrency(Study):
    """Workers that act and learn, by number and by how they share parameters."""

    name = "concurrency"
    summary = "lock, HogWild, parameter server, AD-PSGD, A3C and Dyna-Q against one process (LunarLander-v3 to 200)"
    options = ConcurrencyOptions
    parts = tuple(
        Part(name, COLUMNS, lambda case, folder: Measured(measure(case, folder)), later=LATER_COLUMNS)
        for name in (*_PARTS, _SIMULATED)
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
            "ablation": tuple(case for seed in seeds for case in ablation_cases(seed)),
            "faults": tuple(
                fault_case(topology, seed, disturbed=disturbed)
                for seed, topology, disturbed in product(seeds, topologies, (False, True))
            ),
            _SIMULATED: tuple(_simulated(algorithms, topologies, workers, seeds)),
        }

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """Recomputes the rows that lack all later columns, if their runs' records exist."""
        del say
        describe(_ENVIRONMENT)  # one ConfigError, not one per case, if Box2D is not installed
        for part, cases in plan.items():
            for case in cases:
                for row in sheets[part].of([case.name]):
                    if all(row[column] is None for column in LATER_COLUMNS):
                        values = remake(case, row, output / "runs" / case.name)
                        if values is not None:
                            sheets[part].amend(case.name, values)
        return plan, []

    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Comparison]:
        """Every required figure."""
        return compare(*(rows[part] for part in _PARTS))  # none is required of simulated runs


def run_case(algorithm: str, topology: str, workers: int, seed: int) -> Case:
    """A run to the target with the environment's preset; `workers` only matters for topologies with workers."""
    return _preset_case("runs", algorithm, topology, workers, seed)


def throughput_case(algorithm: str, topology: str, workers: int, number: int) -> Case:
    """A run of fixed time without evaluations; `number` is the round and the seed."""
    return _preset_case("throughput", algorithm, topology, workers, number, **_THROUGHPUT)


def fault_case(topology: str, seed: int, *, disturbed: bool) -> Case:
    """DQN for a fixed number of steps; if `disturbed`, a quarter of the workers are killed during the run."""
    case = _preset_case("faults", "dqn", topology, _FAULT_WORKERS, seed, **_FAULTS)
    return replace(case, killed=_FAULT_WORKERS // 4 if disturbed else 0)


def dyna_q_case(processes: int, seed: int) -> Case:
    """A run to the target with one acting process; the others plan."""
    known = preset(_ENVIRONMENT, "dyna-q")
    topology = Apex(actors=1, envs_per_actor=known.serial.envs_per_actor, chunk_steps=known.serial.chunk_steps)
    algorithm = replace(cast(Any, known.algorithm), planners=processes - 1)
    return _case("runs", "dyna-q", algorithm, topology, seed)


def simulated_case(algorithm: str, topology: str, workers: int, seed: int, *, shared_out: bool) -> Case:
    """A run to the target in simulated time, with a core for each worker.

    If `shared_out`, the workers have 64 environments in sum, otherwise those of the preset each.
    """
    case = _preset_case(_SIMULATED, algorithm, topology, workers, seed, launcher=Simulated(cores=workers))
    if not shared_out:
        return case
    held: Any = case.config.topology
    field = "envs_per_worker" if held.has_workers else "envs_per_actor"
    config = replace(case.config, topology=replace(held, **{field: max(1, _SUM // workers)}))
    return replace(case, variant=f"{algorithm}, {_SUM} environments", config=config)


def ablation_cases(seed: int) -> list[Case]:
    """The ablation of planning: DQN, DQN with as many updates, Dyna-Q, and Dyna-Q without planning.

    All alternate between acting and learning in one process, so that the steps to the target, which are compared,
    depend only on the seed.
    """
    serial = preset(_ENVIRONMENT, "dyna-q").serial
    dqn, dyna_q = (cast(Any, preset(_ENVIRONMENT, name).algorithm) for name in ("dqn", "dyna-q"))
    as_many = dyna_q.samples_per_step / dyna_q.batch_size * dqn.batch_size
    variants = {
        "dqn": dqn,
        "dqn, dyna-q's updates": replace(dqn, samples_per_step=as_many),
        "dyna-q": dyna_q,
        "dyna-q, no planning": replace(dyna_q, planning=False),
    }
    return [_case("ablation", name, algorithm, serial, seed, **_ABLATION) for name, algorithm in variants.items()]


def _preset_case(part: str, algorithm: str, topology: str, workers: int, seed: int, **changes: Any) -> Case:
    known = preset(_ENVIRONMENT, algorithm)
    shared: Any = known.topology(cast(TopologyName, topology))
    if shared.has_workers:
        shared = replace(shared, workers=workers)
    return _case(part, algorithm, known.algorithm, shared, seed, **changes)


def _case(part: str, variant: str, algorithm: Algorithm, topology: Topology, seed: int, **changes: Any) -> Case:
    settings: dict[str, Any] = _TO_TARGET | changes
    return Case(part, variant, RunConfig(_ENVIRONMENT, algorithm, topology, seed=seed, **settings))


def _plans(algorithm: str) -> bool:
    """Whether an algorithm has a world model: its processes are planners, which share no parameters."""
    return preset(_ENVIRONMENT, algorithm).algorithm.world_model is not None


def _runs(algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range) -> Iterator[Case]:
    """Seeds are outermost: the first seed of every case comes first, and a slow hour affects all cases."""
    for seed in seeds:
        for algorithm in algorithms:
            yield run_case(algorithm, "serial", 1, seed)
        for count, algorithm in product(workers, algorithms):
            if not _plans(algorithm):
                for topology in topologies:
                    yield run_case(algorithm, topology, count, seed)
            elif count > 1:  # one acts, and at least one plans
                yield dyna_q_case(count, seed)


def _simulated(
    algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range
) -> Iterator[Case]:
    """A3C shares parameters without a lock only, as published."""
    learning = [name for name in algorithms if not _plans(name)]
    for seed, shared_out, algorithm in product(seeds, (False, True), learning):
        yield simulated_case(algorithm, "serial", 1, seed, shared_out=shared_out)
        replays = preset(_ENVIRONMENT, algorithm).algorithm.replay is not None
        for count, topology in product(workers, topologies if replays else ("hogwild",)):
            yield simulated_case(algorithm, topology, count, seed, shared_out=shared_out)


def _throughput(
    algorithms: Sequence[str], topologies: Sequence[str], workers: Sequence[int], seeds: range
) -> Iterator[Case]:
    for number, algorithm in product(seeds, [name for name in algorithms if not _plans(name)]):
        yield throughput_case(algorithm, "serial", 1, number)
        for topology, count in product(topologies, workers):
            yield throughput_case(algorithm, topology, count, number)
