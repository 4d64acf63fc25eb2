"""Time to reward in simulated time: the published number of actors, with a learner so fast that they bound the run.

Policies have the sizes of `training.py`, so that runs can be computed here, but a step of an actor costs what one of a
policy of 3 x 2048 costs: as published (`published/breakdown.csv`), or as measured (`step_costs.csv`). Actors pull
policies as often as the published ones. The figures are the same on every machine.
"""

import dataclasses
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headrace.environments.dm_control import ControlSuite
from headrace.launch.simulated import Simulated
from headrace.networks.precision import Precision
from headrace.report.output import write_output
from headrace.settings import preset
from headrace.studies.actorq.comparisons import breakdown
from headrace.studies.actorq.training import CURVE_COLUMNS, RUN_COLUMNS, TASKS, TrainingCase, figures_of, training_case
from headrace.studies.base import Measured
from headrace.studies.sheet import Row, read_published
from headrace.studies.training import train_case

__all__ = ["SIMULATED_COLUMNS", "SIMULATED_CURVE_COLUMNS", "SOURCES", "SimulatedCase", "Source", "measure_simulated",
           "simulated_case"]  # fmt: skip

Source = Literal["published", "measured"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""Whose actors' steps a run costs."""
SIMULATED_COLUMNS = ("costs", "step_ms", *RUN_COLUMNS)
SIMULATED_CURVE_COLUMNS = ("costs", *CURVE_COLUMNS)
_MEASURED = {row["precision"]: row for row in read_published("actorq", "step_costs.csv")}
_ACTORS = 4
_PULL_PERIODS = {"d4pg": 30, "dqn": 100}
"""`published/settings.csv`."""
_CORES = 16
"""Enough for all threads: a step costs what an actor with a core for each of its two threads was measured at."""
_UPDATE_MS = 0.05
"""The actors of every case make fewer steps than such a learner can take."""
_PERIOD_STEPS = 2_000


@dataclass(frozen=True)
class SimulatedCase(TrainingCase):
    """A run in simulated time."""

    prefix = "simulated"

    costs: Source
    """Whose steps it costs."""

    def __str__(self) -> str:
        return f"{super().__str__()}, costs as {self.costs}"

    def settings(self) -> dict[str, Any]:
        """Also what all cases have in common."""
        return super().settings() | {"work": self.work(), "cores": _CORES, "period_steps": _PERIOD_STEPS}

    @classmethod
    def of(cls, case: TrainingCase, costs: Source, **changes: Any) -> "SimulatedCase":
        """A run like this one in simulated time, with these changes; evaluated by steps."""
        own: dict[str, Any] = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
        return cls(**own | changes | {"evaluation_period_seconds": 0.0}, costs=costs)

    def step_cost(self) -> Row:
        """Milliseconds of an actor's step with a policy of 3 x 2048, and of a new policy on its way to it.

        The published step contains that way; the published breakdowns are taken to be those of 1,000 steps. Between
        their two pull periods a step costs a constant and a part that is inversely proportional to the period.
        """
        precision = self.topology.precision
        if self.costs == "measured":
            return _MEASURED[precision]
        seconds = {period: row["total_seconds"] for (period, name), row in breakdown().items() if name == precision}
        periods = sorted(seconds, reverse=True)
        pulls = [1 / period for period in periods]
        step_ms = np.interp(1 / self.topology.pull_period, pulls, [seconds[period] for period in periods])
        return {"step_ms": float(step_ms), "install_ms": 0}

    def work(self) -> dict[str, float]:
        """Seconds of each kind of work that does not have its default cost, as Costs.read() reads them."""
        step, update = self.step_cost(), _UPDATE_MS / 1e3
        return {
            "environment": 0.0,  # part of the step
            "inference": step["step_ms"] / 1e3,
            "evaluation": 0.0,  # else the next one would be due long before, in fewer or more steps by precision
            "session": step["install_ms"] / 1e3,
            "gradient": 0.8 * update,
            "apply": 0.2 * update,
            "start": 0.0,
        }


def simulated_case(task: str, precision: Precision, seed: int, costs: Source) -> SimulatedCase:
    """The run of a task with the published actors: an environment in each, and their pull period."""
    case = training_case(task, precision, seed, "cpu")
    algorithm = case.algorithm if task != "CartPole-v1" else preset(case.environment).algorithm.replay
    assert algorithm is not None
    pull_period = _PULL_PERIODS["d4pg" if case.environment.startswith(ControlSuite.prefix) else "dqn"]
    topology = dataclasses.replace(case.topology, actors=_ACTORS, envs_per_actor=1, pull_period=pull_period)
    steps = TASKS[task]["simulated_steps"]
    return SimulatedCase.of(case, costs, algorithm=algorithm, topology=topology, steps=steps)


def measure_simulated(case: SimulatedCase, folder: Path) -> Measured:
    """Trains a run in simulated time; see train_case()."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "costs.json"
        write_output(path, json.dumps(case.work()))
        trained = train_case(
            case,
            folder,
            device="cpu",
            launcher=Simulated(cores=_CORES, costs=path),
            evaluation_period_steps=_PERIOD_STEPS,
        )
    run, curve = figures_of(case, *trained)
    step_ms = case.step_cost()["step_ms"]
    return Measured(
        {"costs": case.costs, "step_ms": step_ms, **run}, [{"costs": case.costs, **evaluation} for evaluation in curve]
    )
