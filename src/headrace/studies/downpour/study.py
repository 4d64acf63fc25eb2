"""`headrace study downpour`."""

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import tyro

from headrace.algorithms.dqn.config import DQN
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.base import Measured, Options, Part, Plan, Say, Scale, Study, leave_out
from headrace.studies.comparisons import Comparison
from headrace.studies.downpour import scaling, timing, training
from headrace.studies.downpour.comparisons import compare, published_times
from headrace.studies.downpour.scaling import ScalingCase
from headrace.studies.downpour.server import Transport
from headrace.studies.downpour.timing import TimingCase
from headrace.studies.downpour.training import TrainingCase
from headrace.studies.sheet import Rows, Sheet
from headrace.topologies.serial import Serial
from headrace.topologies.workers import ParameterServer

__all__ = ["Downpour", "DownpourOptions"]

_PARTS = ("timing", "scaling", "reward", "staleness")
_PIXELS = tuple(published_times())
_LANDER = "LunarLander-v3"
_SNAKE, _SNAKE_FRAMES = "headrace/Snake-v0", "headrace/SnakeFrames-v0"
_TRANSPORTS: tuple[Transport, ...] = ("shared", "unix", "tcp")
_STALE: tuple[dict[str, Any], ...] = (
    {"staleness": "accept"},
    {"staleness": "drop", "staleness_limit": training.STALENESS_LIMIT},
    {"staleness": "scale"},
    {"staleness": "compensate"},
    {"local_updates": True},
)
"""Ways to handle staleness; the last one requires fetch periods above 1."""
_EVALUATIONS = 20
_BEYOND = 2
"""Maximum pushers per core: a pusher that waits for the server leaves its core to another."""


@dataclass(frozen=True)
class DownpourOptions(Options):
    """The parts to measure, and the number of training runs."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = ()
    """Parts of the study to measure; by default all."""
    seeds: int | None = None
    """Runs of each training case; by default 1 at small scale, 3 at full."""
    known: ClassVar = {"parts": _PARTS}
    defaults: ClassVar = {"small": {"seeds": 1}, "full": {"seeds": 3}}


class Downpour(Study):
    """Workers that send gradients to a parameter server."""

    name = "downpour"
    summary = "workers that send gradients to a parameter server, and play Snake (Ong et al., Downpour SGD)"
    options = DownpourOptions
    parts = (
        Part("timing", timing.COLUMNS, lambda case, _: Measured(timing.measure_timing(case))),
        Part("scaling", scaling.COLUMNS, lambda case, _: Measured(scaling.measure_scaling(case))),
        Part("reward", training.RUN_COLUMNS, training.measure_training, "curves"),
        Part("staleness", training.RUN_COLUMNS, training.measure_training, "curves"),
        Part("curves", training.CURVE_COLUMNS),
    )
    told: ClassVar = {
        "gradient_ms": "gradient {:,.3g} ms",
        "share": "{:.1%} of it for push and fetch",
        "updates_per_second": "{:,.0f} updates/s",
        "final_return": "final score {:,.1f}",
        "wall_seconds": "{:,.0f} s",
        "staleness": "staleness {:,.3g}",
    }

    def plan(self, scale: Scale, options: DownpourOptions) -> Plan:
        """Rounds and seeds interleave the cases."""
        small, seeds = scale == "small", range(options.chosen("seeds", scale))
        return {
            "timing": tuple(_timing(small)),
            "scaling": tuple(_scaling(small)),
            "reward": tuple(_reward(small, seeds)),
            "staleness": tuple(_staleness(small, seeds)),
        }

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """Leaves out LunarLander if Box2D is not installed."""
        del sheets, output, say
        why = "" if importlib.util.find_spec("Box2D") is not None else 'pip install "headrace[box2d]"'
        return leave_out(plan, f"runs of {_LANDER}", why, lambda case: getattr(case, "environment", "") == _LANDER)

    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Comparison]:
        """Times and scores; the other parts have no published or required figures."""
        return compare(rows["timing"], rows["reward"])


def _timing(small: bool) -> Iterator[TimingCase]:
    rounds, seconds = (1, 2.0) if small else (5, 5.0)
    for number, pixels, transport in product(range(rounds), _PIXELS, _TRANSPORTS):
        yield TimingCase(pixels, transport, seconds, number)


def _scaling(small: bool) -> Iterator[ScalingCase]:
    """One, two, four ... pushers, up to twice the cores and at least four; several shards only without fetches."""
    rounds, seconds = (1, 1.0) if small else (3, 5.0)
    most = max(4, _BEYOND * available_cores())
    pushers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    transports: tuple[Transport, ...] = ("shared", "tcp") if small else _TRANSPORTS
    for number, transport, shards, fetches, count in product(
        range(rounds), transports, (1, 2, 4), (False, True), pushers
    ):
        if shards == 1 or not fetches:
            yield ScalingCase(_PIXELS[0], transport, count, shards, fetches, seconds, number)


def _reward(small: bool, seeds: range) -> Iterator[TrainingCase]:
    """Serial against parameter-server, with equal total environment steps and equal replay ratios."""
    known = preset(_SNAKE)
    tasks = [("ours", _SNAKE, cast(DQN, known.algorithm), known.sizing.environments, 300_000 if small else known.steps)]
    if not small:
        tasks.append(("published", _SNAKE_FRAMES, training.ONG, 1, 200_000))
    counts = [2, *(count for count in (4, 8, 16) if not small and count <= available_cores())]
    for (label, environment, algorithm, environments, steps), seed in product(tasks, seeds):
        systems: list[Serial | ParameterServer] = [
            Serial(envs_per_actor=environments),
            *(ParameterServer(workers=count, envs_per_worker=max(1, environments // count)) for count in counts),
        ]
        for topology in systems:
            yield _training(label, environment, algorithm, topology, seed, steps, 3.0 if small else 30.0)


def _staleness(small: bool, seeds: range) -> Iterator[TrainingCase]:
    """Staleness policies over the fetch period: long periods make parameters stale. Serial is the reference.

    With local updates, a worker's own gradients are not among those that its parameters lack.
    """
    known = preset(_LANDER)
    steps, seconds = (100_000, 3.0) if small else (150_000, 20.0)
    base = _training("ours", _LANDER, cast(DQN, known.algorithm), Serial.tuned(known.sizing), 0, steps, seconds)
    for seed in seeds:
        yield dataclasses.replace(base, seed=seed)
        for workers, period, handled in product((2,) if small else (2, 4), (1, 32) if small else (1, 8, 32), _STALE):
            if period > 1 or handled in _STALE[:-1]:
                topology = ParameterServer(
                    workers=workers,
                    envs_per_worker=max(1, known.sizing.environments // workers),
                    fetch_period=period,
                    **handled,
                )
                yield dataclasses.replace(base, topology=topology, seed=seed)


def _training(
    label: str,
    environment: str,
    algorithm: DQN,
    topology: Serial | ParameterServer,
    seed: int,
    steps: int,
    period_seconds: float,
) -> TrainingCase:
    return TrainingCase(label, environment, algorithm, topology, seed, steps, period_seconds, steps // _EVALUATIONS, 10)
