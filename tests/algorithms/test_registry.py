"""Algorithms by name: those of Headrace, those of other packages, and mistakes of these packages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from headrace import DQN
from headrace.algorithms.config import Algorithm
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import ConfigError
from headrace.settings import RunConfig

GOOD = """
from dataclasses import dataclass
from typing import ClassVar
from headrace import DQN

@dataclass(frozen=True)
class Kind(DQN):
    name: ClassVar[str] = "added"
    extra: int = 3
"""


@pytest.fixture
def install(add_package: Callable[..., None]) -> Iterator[Callable[[str, str], None]]:
    """Installs a package with an algorithm of this name, whose module has this source and an object Kind."""

    def write(name: str, source: str) -> None:
        add_package("headrace.algorithms", name, "added_algorithm", source)
        ALGORITHMS.forget()

    yield write
    ALGORITHMS.forget()


@pytest.mark.parametrize("name", ALGORITHMS.built_in)
def test_each_built_in_algorithm_round_trips_through_its_record(name: str) -> None:
    kind = ALGORITHMS.find(name)
    assert kind.name == name
    assert kind.summary
    assert set(kind.action_kinds) <= {"discrete", "multi-discrete", "continuous"}
    assert Algorithm.from_record(kind().to_record()) == kind()


def test_an_algorithm_of_another_package_is_listed(install: Callable[[str, str], None]) -> None:
    install("added", GOOD)
    assert ALGORITHMS.names == (*ALGORITHMS.built_in, "added")
    added = ALGORITHMS.known()["added"](extra=5)  # type: ignore[call-arg]
    config = RunConfig("CartPole-v1", added)
    assert RunConfig.from_json(config.to_json()) == config
    assert "added" in ALGORITHMS.known()


def test_built_in_algorithms_cannot_be_replaced(install: Callable[[str, str], None]) -> None:
    install("dqn", GOOD.replace('"added"', '"dqn"'))
    assert ALGORITHMS.find("dqn") is DQN
    assert ALGORITHMS.names == tuple(ALGORITHMS.built_in)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import nowhere_to_be_found", "can't be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "can't be loaded: SystemExit: 3"),
        ("Kind = 3", "is 3; a subclass of Algorithm"),
        (
            GOOD.replace("extra: int = 3", "hidden: tuple[int, ...] = (0,)"),
            "can't be made with its defaults: hidden is",
        ),
        (GOOD.replace("extra: int = 3", 'summary: ClassVar[str] = ""'), "has no summary"),
        (
            GOOD.replace("@dataclass(frozen=True)\n", ""),
            "has the settings extra and is no dataclass: @dataclass(frozen=True) is required",
        ),
        (
            GOOD.replace("import DQN", "import DQN\nfrom dataclasses import field").replace(
                "extra: int = 3", "extra: dict[int, float] = field(default_factory=lambda: {0: 1.0})"
            ),
            "has settings that JSON changes: extra",
        ),
        (
            GOOD.replace("import DQN", "import DQN\nfrom datetime import date").replace(
                "extra: int = 3", "extra: date = date(2026, 1, 1)"
            ),
            "has settings that can't be sent as JSON: Object of type date is not JSON serializable",
        ),
        (
            GOOD.replace("import DQN", "import DQN\nfrom headrace.algorithms.config import OffPolicy").replace(
                "(DQN)", "(OffPolicy)"
            ),
            "has no summary, action_kinds, exploration, greedy, make_exploration, updater_class",
        ),
        ("from headrace import DQN as Kind", 'a subclass of Algorithm whose name is "added"'),
        (
            GOOD.replace("import DQN", "import DQN\nfrom headrace.algorithms.config import Algorithm").replace(
                "(DQN)", "(Algorithm)"
            )
            + """
    summary: ClassVar[str] = "added"
    action_kinds: ClassVar[tuple[str, ...]] = ("discrete",)
    updater_class = greedy = lambda *given: None
""",
            "Kind must be a subclass of OffPolicy or OnPolicy",
        ),
        (
            GOOD + "    presets = classmethod(lambda kind: {'a': kind.nowhere})\n",
            "presets() fails: AttributeError: type object 'Kind' has no attribute 'nowhere' (added_algorithm.py, line",
        ),
        (
            GOOD + "    frugal_presets = classmethod(lambda kind: {'a': kind()})\n",
            "frugal_presets() is [Kind(network='auto', ",
        ),
    ],
)
def test_a_broken_package_is_named_and_does_not_affect_others(
    install: Callable[[str, str], None], source: str, problem: str
) -> None:
    install("added", source)
    with pytest.raises(ConfigError, match=r"^algorithm added: entry point .*added_algorithm:Kind") as caught:
        ALGORITHMS.find("added")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert tuple(ALGORITHMS.known()) == tuple(ALGORITHMS.built_in)


@pytest.mark.parametrize("name", ["sarsa", "", "DQN"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^algorithm is .*; it must be one of dqn, dyna-q"):
        ALGORITHMS.find(name)


def test_a_class_that_other_processes_can_not_import_is_refused_before_the_run() -> None:
    @dataclass(frozen=True)
    class Mine(DQN):
        """Named as its base."""

    with pytest.raises(ConfigError, match=r"^algorithm .*<locals>.Mine can't be loaded: AttributeError"):
        RunConfig("CartPole-v1", Mine())
