"""The published tasks and figures."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.studies.published import read_published

__all__ = ["TASKS", "BreakdownRow", "PublishedTime", "Task", "breakdown", "published_time", "reference", "settings"]


@dataclass(frozen=True)
class Task:
    """One environment of the published table, with its id and its name in the table."""

    name: str
    published: str
    environment: str
    algorithm: Literal["d4pg", "dqn"]


_SUITE = (
    *("cartpole-balance", "walker-stand", "hopper-stand", "reacher-hard", "cheetah-run", "finger-spin"),
    *("humanoid-stand", "humanoid-walk"),
)
_ALL = (
    *(Task(name, name.replace("-", " ").title(), f"dm_control/{name}", "d4pg") for name in _SUITE),
    Task("CartPole-v1", "Cartpole (Gym)", "CartPole-v1", "dqn"),
    Task("MountainCar-v0", "Mountain Car (Gym)", "MountainCar-v0", "dqn"),
    Task("Acrobot-v1", "Acrobot (Gym)", "Acrobot-v1", "dqn"),
)
TASKS: dict[str, Task] = {task.name: task for task in _ALL}


class PublishedTime(NamedTuple):
    """A row of the published table: seconds to a reward with actors in fp32 and in int8."""

    reward: float
    fp32_seconds: float
    int8_seconds: float
    speedup: float


class BreakdownRow(NamedTuple):
    """How a published actor spent its time, in seconds, read off the bars of a figure."""

    step: float
    pull: float
    deserialize: float
    load: float
    total: float

    @property
    def parameter_share(self) -> float:
        """The share of the time spent on parameters."""
        return (self.pull + self.deserialize + self.load) / self.total


def published_time(task: Task) -> PublishedTime:
    """The published figures of a task."""
    row = next(row for row in _read("time_to_reward") if row["task"] == task.published)
    fields = ("reward_achieved", "fp32_seconds", "int8_seconds", "int8_speedup")
    return PublishedTime(*(float(row[field]) for field in fields))


def breakdown() -> dict[tuple[int, str], BreakdownRow]:
    """The published breakdowns by pull period (steps) and precision."""
    return {
        (int(row["pull_period_steps"]), row["precision"]): BreakdownRow(
            *(float(row[f"{part}_seconds"]) for part in BreakdownRow._fields)
        )
        for row in _read("breakdown")
    }


def settings() -> list[dict[str, str]]:
    """The published settings: setting, d4pg, dqn."""
    return _read("settings")


def reference(task: Task) -> str:
    """Scores of other systems, such as "994 in 100,000 steps (Acme-style D4PG)"; empty if none is known."""
    found = []
    for row in _read("reference_scores"):
        if row["environment"] == task.name:
            steps = f" in {int(row['environment_steps']):,} steps" if row["environment_steps"] else ""
            found.append(f"{row['score']}{steps} ({row['system']})")
    return "; ".join(found)


def _read(name: str) -> list[dict[str, str]]:
    return read_published("actorq", f"published/{name}.csv")
