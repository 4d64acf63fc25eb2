"""Runs the benchmarks that need no GPU, root or other programs in separate processes: python -m benchmarks [--all].

--all adds the long ones: Reverb, the load of the Ape-X paper, 1,000 connected actors, and those that train to a score,
which take hours.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import require

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
    """Runs them all, even if one fails; returns status 1 if a requirement is missed."""
    require("headrace", "cpprb", "jax", "stable_baselines3", "Box2D")
    names = _SHORT + (_LONG if "--all" in sys.argv[1:] else ())
    root = Path(__file__).parent.parent
    status = {
        name: subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=root, check=False).returncode
        for name in names
    }
    words = {0: "every requirement holds", 1: "a requirement is MISSED, or it ended with an error above"}
    for name, code in status.items():
        print(f"{name}: {words.get(code, 'failed')}")
    return int(any(status.values()))  # that of a killed one is negative


if __name__ == "__main__":
    sys.exit(main())
