"""The result of a finished run."""

from pathlib import Path
from typing import Any

from headrace.errors import require
from headrace.fields import require_fit
from headrace.parameters import Policy
from headrace.report.run_directory import RunDirectory
from headrace.roles.clock import PhaseClock
from headrace.roles.evaluator import GreedyPolicy, play
from headrace.settings import MOST_EPISODES
from headrace.training.evaluation import Evaluation
from headrace.training.hang_watch import environment_faults, watched
from headrace.training.saved_policy import read_trained
from headrace.zoo import KeptPolicy

__all__ = ["Result", "evaluate"]


class Result:
    """A stopped run: its directory, its summary and its policy."""

    def __init__(self, run: RunDirectory, summary: dict[str, Any]) -> None:
        self.run = run
        self.summary = summary

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last evaluation."""
        mean: float | None = self.summary["mean_return"]
        return mean

    def evaluate(self, episodes: int = 100, seed: int | None = None) -> Evaluation:
        """Plays greedy episodes with the last policy; `seed` is by default the run's. Raises HeadraceError."""
        return evaluate(self.run, episodes=episodes, seed=seed)

    def __repr__(self) -> str:
        return f"Result(path={str(self.path)!r}, mean_return={self.mean_return})"


def evaluate(source: RunDirectory | KeptPolicy, *, episodes: int = 100, seed: int | None = None) -> Evaluation:
    """Plays greedy episodes with a policy of the zoo, or of a run's newest checkpoint.

    None uses the seed of the run, or of the episodes that the zoo's score is of. Raises ConfigError for a number of
    episodes, or a seed, that is out of range.
    """
    require_fit("episodes", episodes, int)
    require("episodes", episodes, 0 < episodes <= MOST_EPISODES, f"above 0 and at most {MOST_EPISODES:,}")
    require_fit("seed", seed, int | None)
    require("seed", seed, seed is None or 0 <= seed < 2**63, "between 0 and 2^63 - 1")
    trained = read_trained(source)
    greedy = GreedyPolicy(trained.algorithm, Policy(trained.graph, trained.moment.version), trained.spec)
    clock = PhaseClock(("environment",))
    with environment_faults(), watched(trained.hang_seconds, clock):
        score = play(
            trained.environment,
            greedy.act,
            episodes,
            trained.seed if seed is None else seed,
            clock.beat,
            trained.spec,
            greedy.reset,
        )
    return Evaluation(score.returns, score.lengths, trained.moment)
