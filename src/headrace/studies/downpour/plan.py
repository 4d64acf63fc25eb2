"""What each scale measures."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from headrace.algorithms.dqn.config import DQN
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.base import Scale
from headrace.studies.downpour.cases import ONG, ScalingCase, TimingCase, TrainingCase, Transport
from headrace.studies.downpour.options import DownpourOptions
from headrace.studies.downpour.sources import PIXELS
from headrace.topologies.config import ParameterServer, Serial

__all__ = ["LANDER", "STALENESS_LIMIT", "Plan", "make_plan"]

LANDER = "LunarLander-v3"
STALENESS_LIMIT = 8
"""Low enough for the policy "drop" to drop something at the longer fetch periods."""
_SNAKE, _SNAKE_FRAMES = "headrace/Snake-v0", "headrace/SnakeFrames-v0"
_TRANSPORTS: tuple[Transport, ...] = ("shared", "unix", "tcp")
_EVALUATIONS = 20
_BEYOND = 2
"""Pushers for each core, at most: one that waits for the server leaves its core to another."""


@dataclass(frozen=True)
class Plan:
    """Every case, in the order in which they are measured; rounds and seeds interleave what is compared."""

    scale: Scale
    timing: tuple[TimingCase, ...]
    scaling: tuple[ScalingCase, ...]
    reward: tuple[TrainingCase, ...]
    staleness: tuple[TrainingCase, ...]


def make_plan(scale: Scale, options: DownpourOptions) -> Plan:
    """Every part's cases, those of parts that were not asked for too: what is measured of them is shown."""
    small = scale == "small"
    seeds = range(options.chosen_seeds(scale))
    return Plan(
        scale=scale,
        timing=tuple(_timing(small)),
        scaling=tuple(_scaling(small)),
        reward=tuple(_reward(small, seeds)),
        staleness=tuple(_staleness(small, seeds)),
    )


def _timing(small: bool) -> Iterator[TimingCase]:
    rounds, seconds = (1, 2.0) if small else (5, 5.0)
    for number, pixels, transport in product(range(rounds), PIXELS, _TRANSPORTS):
        yield TimingCase(pixels, transport, seconds, number)


def _scaling(small: bool) -> Iterator[ScalingCase]:
    """One, two, four ... pushers, up to twice the cores and four at least; more shards where there are no fetches."""
    rounds, seconds = (1, 1.0) if small else (3, 5.0)
    most = max(4, _BEYOND * available_cores())
    pushers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    transports: tuple[Transport, ...] = ("shared", "tcp") if small else _TRANSPORTS
    for number, transport, shards, fetches, count in product(
        range(rounds), transports, (1, 2, 4), (False, True), pushers
    ):
        if shards == 1 or not fetches:
            yield ScalingCase(PIXELS[0], transport, count, shards, fetches, seconds, number)


def _reward(small: bool, seeds: range) -> Iterator[TrainingCase]:
    """Serial against parameter-server: as many environment steps of all, and as many samples for each of them."""
    known = preset(_SNAKE)
    assert isinstance(known.algorithm, DQN)
    tasks = [("ours", _SNAKE, known.algorithm, known.serial.envs_per_actor, 300_000 if small else known.steps)]
    if not small:
        tasks.append(("published", _SNAKE_FRAMES, ONG, 1, 200_000))
    counts = [2, *(count for count in (4, 8, 16) if not small and count <= available_cores())]
    for (label, environment, algorithm, environments, steps), seed in product(tasks, seeds):
        systems: list[Serial | ParameterServer] = [
            Serial(envs_per_actor=environments),
            *(ParameterServer(workers=count, envs_per_worker=max(1, environments // count)) for count in counts),
        ]
        for topology in systems:
            yield TrainingCase(
                label,
                environment,
                algorithm,
                topology,
                seed,
                steps,
                evaluation_period_seconds=3.0 if small else 30.0,
                evaluation_period_steps=steps // _EVALUATIONS,
                evaluation_episodes=10,
            )


def _staleness(small: bool, seeds: range) -> Iterator[TrainingCase]:
    """Policies over the fetch period, for what a worker reads seldom is stale; serial is what all lose against."""
    known = preset(LANDER)
    assert isinstance(known.algorithm, DQN)
    steps = 100_000 if small else 150_000
    base = TrainingCase(
        "ours",
        LANDER,
        known.algorithm,
        known.serial,
        0,
        steps,
        evaluation_period_seconds=3.0 if small else 20.0,
        evaluation_period_steps=steps // _EVALUATIONS,
        evaluation_episodes=10,
    )
    for seed in seeds:
        yield dataclasses.replace(base, seed=seed)
        for workers, period, policy in product(
            (2,) if small else (2, 4), (1, 32) if small else (1, 8, 32), ("accept", "drop", "scale", "compensate")
        ):
            topology = ParameterServer(
                workers=workers,
                envs_per_worker=max(1, known.serial.envs_per_actor // workers),
                fetch_period=period,
                staleness=policy,  # type: ignore[arg-type]  # product() forgets that these are literals
                staleness_limit=STALENESS_LIMIT,
            )
            yield dataclasses.replace(base, topology=topology, seed=seed)
