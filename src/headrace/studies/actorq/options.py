"""The settings that only this study has."""

import difflib
from dataclasses import dataclass
from typing import Annotated

import tyro

from headrace.errors import ConfigError, require
from headrace.studies.actorq.tasks import TASKS
from headrace.studies.base import Scale

__all__ = ["ActorQOptions"]

_SMALL_TASKS = ("cartpole-balance",)
_SMALL_SEEDS, _FULL_SEEDS = 1, 3


@dataclass(frozen=True)
class ActorQOptions:
    """Which tasks are trained, and how often; raises ConfigError for a task that there is not."""

    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TASK ...")] = ()
    """Tasks to train, CartPole-v1 perhaps; if none is given, cartpole-balance at small scale, all eleven at full."""
    seeds: int | None = None
    """Runs of each task and precision; if not given, 1 at small scale, 3 at full."""

    def __post_init__(self) -> None:
        for task in self.tasks:
            if task not in TASKS:
                close = difflib.get_close_matches(task, TASKS, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(TASKS)}"
                raise ConfigError(f"tasks has {task}, which is none of the study's; {hint}")
        if self.seeds is not None:
            require("seeds", self.seeds, self.seeds > 0, "above 0")

    def chosen_tasks(self, scale: Scale) -> tuple[str, ...]:
        """The tasks asked for, each once, or those of the scale."""
        return tuple(dict.fromkeys(self.tasks)) or (_SMALL_TASKS if scale == "small" else tuple(TASKS))

    def chosen_seeds(self, scale: Scale) -> int:
        """The seeds asked for, or those of the scale."""
        return self.seeds or (_SMALL_SEEDS if scale == "small" else _FULL_SEEDS)

    def words(self) -> list[str]:
        """The options as they were given, for the command that each figure has beside it."""
        tasks = ["--tasks", *self.tasks] if self.tasks else []
        return tasks + (["--seeds", str(self.seeds)] if self.seeds else [])
