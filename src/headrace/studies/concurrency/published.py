"""The published figures of workers that act and learn."""

from typing import NamedTuple

from headrace.studies.published import read_published

__all__ = ["COUNTERPARTS", "NOTES", "PublishedRun", "atari", "lunar_lander"]

COUNTERPARTS = {
    "dqn_hogwild": ("dqn", "hogwild"),
    "a3c": ("a3c", "hogwild"),  # whose workers write without a lock (Mnih et al. 2016)
    "dyna_q": ("dyna-q", "apex"),
}
"""Our algorithm and topology for each published one."""

NOTES = (
    "The published code counts the episodes of one of N processes; all processes played up to N times as many. Ours "
    "are of all workers.",
    "The published speed-up falls beyond 4 processes, for A3C beyond 8: N processes started N times as many threads as "
    "there were cores. Our workers have one thread each.",
    "The published replay ratio falls as processes are added; ours is the same for every number of workers (see "
    "table).",
    "The published times are read off bars, 1 to 15 % off, and come from other hardware, networks and settings.",
)
"""Notes for the comparison of the published figures with ours."""


class PublishedRun(NamedTuple):
    """LunarLander to 200 with this many processes; None for figures that were not published."""

    episodes: float | None
    minutes: float | None
    seconds_per_episode: float | None
    speedup: float | None


def lunar_lander() -> dict[tuple[str, int], PublishedRun]:
    """The published runs by algorithm, as the source names it, and number of processes."""
    found = {}
    for row in read_published("concurrency", "published/lunarlander.csv"):
        cells = (float(row[field]) if row[field] else None for field in PublishedRun._fields)
        found[row["algorithm"], int(row["processes"])] = PublishedRun(*cells)
    return found


def atari() -> dict[str, dict[int, float]]:
    """Speed-ups over threads, seven Atari games' mean (Mnih et al. 2016, table 2), by method."""
    return {
        row["method"]: {
            int(column.removeprefix("threads_")): float(cell)
            for column, cell in row.items()
            if column.startswith("threads_")
        }
        for row in read_published("concurrency", "published/atari.csv")
    }
