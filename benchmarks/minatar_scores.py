"""Scores of the preset in MinAtar's five games (Young, Tian 2019) after two million frames.

    python -m benchmarks.minatar_scores [--seeds 5] [--only minatar/breakout]

Each run is serial and takes the steps of the preset; then 100 greedy episodes with seeds that the run never used give
`fresh_mean`. A row is added to results/minatar_scores.csv as soon as a run ends; started again, it measures what is
missing. The scores do not depend on how fast the machine is.
"""

import json
import statistics
from typing import Any

from benchmarks.measure import RESULTS, make_parser, origin, positive, read_csv, require, run
from benchmarks.spaces import judge
from headrace.environments.minatar import MinAtar
from headrace.errors import ConfigError
from headrace.settings import preset
from headrace.studies.results import write_rows
from headrace.studies.sheet import fingerprint

_PATH = RESULTS / "minatar_scores.csv"
_EPISODES = 100
GAMES = tuple(MinAtar().names())


def main() -> int:
    """Measures what is missing and prints each game's scores."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--only", nargs="+", choices=GAMES, default=GAMES)
    options = parser.parse_args()
    require("minatar")
    presets = {game: preset(game) for game in GAMES}
    settings = {
        game: fingerprint("serial", [known.algorithm.to_record(), known.topology("serial")])
        for game, known in presets.items()
    }
    others = sorted({row["environment"] for row in read_csv(_PATH) if row["settings"] != settings[row["environment"]]})
    if others:
        raise ConfigError(f"{_PATH} has rows of other settings ({', '.join(others)}): move it away")
    for seed in range(options.seeds):
        for game in options.only:
            if (game, str(seed)) not in {(row["environment"], row["seed"]) for row in read_csv(_PATH)}:
                source = origin()
                row = {"environment": game, "settings": settings[game], **judge(game, seed, _EPISODES)}
                write_rows(_PATH, [*read_csv(_PATH), row | source])
                print(json.dumps(row), flush=True)
    for game in GAMES:
        print(_summary(game, [row for row in read_csv(_PATH) if row["environment"] == game]))
    return 0


def _summary(game: str, rows: list[dict[str, Any]]) -> str:
    scores = sorted(float(row["fresh_mean"]) for row in rows)
    if not scores:
        return f"{game}: not measured"
    return f"{game}: {statistics.median(scores):.3g} ({scores[0]:.3g} to {scores[-1]:.3g}, {len(scores)} seeds)"


if __name__ == "__main__":
    run(main)
