"""Runs the benchmarks that need no GPU, root or other programs, in separate processes.

Exit status 0: every requirement holds. 1: one is missed. 2: something is not installed, or a run failed.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import make_parser, require, run

_SHORT = ("table", "records", "inference", "updates", "learner_wait", "network", "refresh", "shards", "stalls")
_LONG = (
    "reverb",
    "load",
    "connections",
    "shard_saving",
    "watching",
    "apart",
    "launchers",
    "time_to_score",
    "spaces",
    "bsuite_scores",
    "minatar_scores",
    "validation",
    "zoo",
)


def main() -> int:
    """Runs them all, even if one fails; returns the worst status."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the long ones: Reverb, the load of the Ape-X paper, 1,000 connected actors, and those that train to "
        "a score, which take hours",
    )
    options = parser.parse_args()
    require("headrace", "cpprb", "jax", "stable_baselines3", "Box2D")
    names = _SHORT + (_LONG if options.all else ())
    root = Path(__file__).parent.parent
    status = {
        name: subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=root, check=False).returncode
        for name in names
    }
    words = ("every requirement holds", "a requirement is MISSED", "failed, or something is not installed")
    worst = 0
    for name, code in status.items():
        known = code if code in (0, 1) else 2  # that of a killed one is negative
        print(f"{name}: {words[known]}")
        worst = max(worst, known)
    return worst


if __name__ == "__main__":
    run(main)
