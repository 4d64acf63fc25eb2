"""`headrace check`: says what is wrong, slow or unsupported in an environment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.cli.arguments import Environment, parse
from headrace.fields import require_positive

__all__ = ["run"]

_MOST_STEPS = 10**8


@dataclass(frozen=True)
class _Options:
    environment: Environment
    steps: int = 1_000
    """Random steps of the main checks."""

    def __post_init__(self) -> None:
        require_positive(self, "steps", most=_MOST_STEPS)


def run(arguments: Sequence[str]) -> int:
    """Checks; returns 1 if there is an error."""
    options = parse(
        _Options,
        arguments,
        prog="headrace check",
        description="Step an environment with random actions and say what is wrong, slow or unsupported.",
    )
    from headrace.training.environment_check import check_environment

    levels: Counter[str] = Counter()
    for finding in check_environment(options.environment, options.steps):
        levels[finding.level] += 1
        print(f"{finding.level:<8} {finding.subject:<12}  {finding.text}", flush=True)
    print(", ".join(f"{_counted(levels[level], level)}" for level in ("error", "warning")))
    return 1 if levels["error"] else 0


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
