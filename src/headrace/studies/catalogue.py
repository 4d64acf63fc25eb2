"""The studies that there are."""

import difflib

from headrace.errors import ConfigError
from headrace.studies.actorq.study import ActorQ
from headrace.studies.base import Study
from headrace.studies.concurrency.study import Concurrency
from headrace.studies.downpour.study import Downpour
from headrace.studies.in_network.study import InNetwork

__all__ = ["STUDIES", "find_study"]

STUDIES: tuple[Study, ...] = (InNetwork(), ActorQ(), Concurrency(), Downpour())


def find_study(name: str) -> Study:
    """The study of that name; raises ConfigError, naming those there are."""
    names = {study.name: study for study in STUDIES}
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
        raise ConfigError(f"{name} is not a study; {hint}")
    return names[name]
