"""A simulated world without spread, whose costs are easy to add up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.clock import inhabit
from headrace.launch.simulated.costs import Cost, Costs
from headrace.launch.simulated.link import Link
from headrace.launch.simulated.world import SimulatedWorld

COSTS = Costs(
    {"second": Cost(1.0), "row": Cost(per_row=1.0), "gradient": Cost(2.0), "apply": Cost(1.0), "sum": Cost(0.5)}
)
LINK = Link(1.0, 100.0)

MakeWorld = Callable[..., SimulatedWorld]


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Makes worlds with `cores`, `seed` and shares of `Costs` around the test, and closes them."""
    contexts: list[Any] = []
    worlds: list[SimulatedWorld] = []

    def make(cores: int = 1, seed: int = 0, **shares: float) -> SimulatedWorld:
        worlds.append(SimulatedWorld(cores, LINK, replace(COSTS, **shares), seed))
        contexts.append(inhabit(worlds[-1]))
        contexts[-1].__enter__()
        return worlds[-1]

    yield make
    for world, context in zip(reversed(worlds), reversed(contexts), strict=True):
        world.close()
        context.__exit__(None, None, None)
