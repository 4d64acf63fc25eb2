"""The list of all studies."""

from headrace.errors import ConfigError
from headrace.studies.actorq.study import ActorQ
from headrace.studies.base import Study, hint
from headrace.studies.concurrency.study import Concurrency
from headrace.studies.downpour.study import Downpour
from headrace.studies.in_network.study import InNetwork

__all__ = ["STUDIES", "find_study"]

STUDIES: tuple[Study, ...] = (InNetwork(), ActorQ(), Concurrency(), Downpour())


def find_study(name: str) -> Study:
    """The study with that name; raises ConfigError, with a suggestion, if there is none."""
    names = {study.name: study for study in STUDIES}
    if name not in names:
        raise ConfigError(f"{name} is not a study; {hint(name, names)}")
    return names[name]
