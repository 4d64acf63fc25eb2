"""What each scale measures."""

from collections.abc import Iterator
from itertools import product

from headrace.studies.base import Scale
from headrace.studies.concurrency.cases import (
    Case,
    Part,
    ablation_cases,
    dyna_q_case,
    fault_case,
    run_case,
    throughput_case,
)
from headrace.studies.concurrency.options import ConcurrencyOptions

__all__ = ["Plan", "make_plan"]

Plan = dict[Part, tuple[Case, ...]]
"""The cases of each part, in the order in which they are measured; rounds interleave what is compared."""


def make_plan(scale: Scale, options: ConcurrencyOptions) -> Plan:
    """Every part's cases, those of parts that were not asked for too: what is measured of them is shown."""
    seeds = range(options.chosen_seeds(scale))
    topologies, workers = options.chosen_topologies(scale), options.chosen_workers(scale)
    algorithms = options.chosen_algorithms(scale)
    return {
        "runs": tuple(_runs(algorithms, topologies, workers, seeds)),
        "throughput": tuple(_throughput(algorithms, topologies, workers, seeds)),
        "ablation": tuple(case for seed in seeds for case in ablation_cases(seed)),
        "faults": tuple(
            fault_case(topology, seed, disturbed=disturbed)
            for seed, topology, disturbed in product(seeds, topologies, (False, True))
        ),
    }


def _runs(
    algorithms: tuple[str, ...], topologies: tuple[str, ...], workers: tuple[int, ...], seeds: range
) -> Iterator[Case]:
    """Seeds outermost: the first seed of everything is there soonest, and a slow hour hits all alike."""
    for seed in seeds:
        for algorithm in algorithms:
            yield run_case(algorithm, "serial", 1, seed)
        for count, algorithm in product(workers, algorithms):
            if algorithm != "dyna-q":
                for topology in topologies:
                    yield run_case(algorithm, topology, count, seed)
            elif count > 1:  # one acts, and at least one plans
                yield dyna_q_case(count, seed)


def _throughput(
    algorithms: tuple[str, ...], topologies: tuple[str, ...], workers: tuple[int, ...], seeds: range
) -> Iterator[Case]:
    for number, algorithm in product(seeds, algorithms):
        if algorithm == "dyna-q":  # whose workers do not share parameters
            continue
        yield throughput_case(algorithm, "serial", 1, number)
        for topology, count in product(topologies, workers):
            yield throughput_case(algorithm, topology, count, number)
