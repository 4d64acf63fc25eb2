"""`headrace evaluate`: plays greedy episodes with the policy of a run or of the zoo; prints text or JSON."""

import contextlib
import ctypes
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.arguments import Run, Switch, parse
from headrace.errors import require
from headrace.fields import require_positive
from headrace.report import RunDirectory
from headrace.report.formats import count, number, score_text
from headrace.report.video import require_video, write_video
from headrace.settings import MOST_EPISODES
from headrace.zoo import PREFIX, KeptPolicy, find_kept, kept_policies, zoo_name

if TYPE_CHECKING:
    from headrace.training import Evaluation

__all__ = ["MAX_VIDEO_STEPS", "run"]

MAX_VIDEO_STEPS = 3_000
"""Maximum environment steps of a video."""


@dataclass(frozen=True)
class _Options:
    run: Run
    """Run directory, or zoo:NAME for a policy that comes with Headrace; zoo: lists them."""
    episodes: int = 100
    """Greedy episodes to play."""
    seed: int | None = None
    """Seed of the environments; if not set, that of the run, or of the zoo."""
    json: Switch = False
    """Print one JSON object."""
    video: Path | None = None
    """Also record an episode to this file, which ends in .mp4 or .gif."""

    def __post_init__(self) -> None:
        require_positive(self, "episodes", most=MOST_EPISODES)
        require("seed", self.seed, self.seed is None or self.seed >= 0, "0 or more")


def run(arguments: Sequence[str]) -> int:
    """Evaluates; returns the exit code."""
    options = parse(
        _Options, arguments, prog="headrace evaluate", description="Play greedy episodes with a trained policy."
    )
    name = zoo_name(options.run)
    if name == "":
        for given in ("episodes", "seed", "video"):
            value = getattr(options, given)
            require(given, value, value == getattr(_Options, given), "left out with zoo:, which lists the policies")
        print(_list_json(kept_policies()) if options.json else _list(kept_policies()))
        return 0
    if options.video is not None:
        require_video(options.video)  # before the episodes, not after
    source = RunDirectory.open(options.run) if name is None else find_kept(name)
    from headrace import training

    with contextlib.ExitStack() as ends:
        if options.json:
            ends.enter_context(_printing_apart())
        if options.video is not None:  # before the episodes, too: an environment may draw nothing
            recording = training.record_frames(source, seed=options.seed, max_steps=MAX_VIDEO_STEPS)
            frames, fps = ends.enter_context(recording)
        result = training.evaluate(source, episodes=options.episodes, seed=options.seed)
        if not options.json:
            print(_text(result))
        if options.video is not None:
            frame_count = write_video(frames, options.video, fps)
            if not options.json:
                print(f"  video     {options.video}, {frame_count} frames")
    if options.json:
        print(_json(result, options.run))
    return 0


@contextlib.contextmanager
def _printing_apart() -> Iterator[None]:
    """A context in which what an environment prints goes to standard error, also what its native code prints."""
    if sys.stdout is None or sys.stderr is None:  # closed by the caller
        yield
        return
    library = ctypes.CDLL(None)
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        library.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _json(result: "Evaluation", run: Path) -> str:
    """One JSON object with the score, and every episode's return and length."""
    record = {
        "run": str(run),
        "episodes": len(result.returns),
        "mean_return": result.mean,
        "std_return": result.std,
        "min_return": result.minimum,
        "max_return": result.maximum,
        "version": result.moment.version,
        "environment_steps": result.moment.environment_steps,
        "returns": result.returns,
        "lengths": result.lengths,
    }
    return json.dumps(record)


def _text(result: "Evaluation") -> str:
    """The score in three lines."""
    return (
        f"{len(result.returns)} greedy episodes after {count(result.moment.environment_steps)} steps of training\n"
        f"  return    {score_text(result.mean, result.std)} "
        f"(min {score_text(result.minimum)}, max {score_text(result.maximum)})\n"
        f"  length    {number(statistics.fmean(result.lengths))} steps"
    )


def _list(kept: Mapping[str, KeptPolicy]) -> str:
    """One line for each policy of the zoo."""
    width = max(map(len, kept), default=0) + len(PREFIX)
    return "\n".join(
        f"{PREFIX + name:{width}}  {each.algorithm:7}  return {score_text(each.mean_return, each.std_return)} "
        f"over {each.episodes} episodes, after {count(each.environment_steps)} steps of training"
        for name, each in kept.items()
    )


def _list_json(kept: Mapping[str, KeptPolicy]) -> str:
    """One JSON object of the policies by name, with their scores and training."""
    names = ("environment", "algorithm", "mean_return", "std_return", "episodes", "environment_steps")
    return json.dumps({PREFIX + key: {name: getattr(each, name) for name in names} for key, each in kept.items()})
