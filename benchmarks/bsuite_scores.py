"""Scores of DQN and R2D2 in bsuite's experiments (Osband et al. 2020), by bsuite's own code.

    python -m benchmarks.bsuite_scores [--algorithms dqn r2d2] [--every 1] [--only deep_sea memory_len]

Each setting of an experiment is one serial run of one environment, without evaluations, for as many episodes as bsuite
asks for. bsuite's wrapper logs it into results/bsuite/ALGORITHM; a setting whose log is complete is not run again. The
number of a setting is the run's seed, since some experiments (cartpole, catch) repeat one setting. `--every N` leaves
out all but the first, the (N+1)-th, ... setting.

DQN has the settings of bsuite's own DQN. R2D2's were chosen from nine, by runs of a minute in cartpole/0, catch/0 and
memory_len/7 with another seed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium
import numpy as np
from numpy.typing import NDArray

import headrace
from benchmarks.measure import RESULTS, Rows, make_parser, origin, positive, read_csv, require, run
from headrace.environments.bsuite import BSuite, Experiment
from headrace.studies.results import make_folder

_LOGS = RESULTS / "bsuite"
_ID, _FOLDER = "BSUITE_ID", "BSUITE_FOLDER"
_NEVER = 10**9
ALGORITHMS: dict[str, Any] = {
    "dqn": headrace.DQN(
        hidden=(50, 50),
        double=False,
        n_step=1,
        loss="squared",
        prioritized=False,
        batch_size=32,
        samples_per_step=32.0,
        replay_capacity=10_000,
        learning_starts=100,
        target_update_period=4,
        max_gradient_norm=0.0,
        epsilon_decay_steps=1,
    ),
    "r2d2": headrace.R2D2(
        hidden=(50,),
        memory=50,
        burn_in=0,
        learned_steps=10,
        batch_size=16,
        learning_starts=20,
        target_update_period=20,
        samples_per_step=32.0,
        epsilon_decay_steps=1,
    ),
}


class _Logged(gymnasium.Wrapper[NDArray[np.float32], np.int64, NDArray[np.float32], np.int64]):
    """An experiment that bsuite logs; it ends the run by SIGINT after its last episode."""

    def __init__(self, identity: str, logs: str) -> None:
        from bsuite.logging import csv_logging

        experiment = Experiment(BSuite.prefix + identity)
        super().__init__(experiment)
        self._left = experiment.task.bsuite_num_episodes
        experiment.task = csv_logging.wrap_environment(experiment.task, identity, logs, overwrite=True)

    def step(self, action: np.int64) -> Any:
        found = self.env.step(action)
        if found[2]:
            self._left -= 1
            if self._left == 0:
                signal.raise_signal(signal.SIGINT)
        return found


def logged() -> gymnasium.Env[Any, Any]:
    """The experiment that the process's environment variables name."""
    return _Logged(os.environ[_ID], os.environ[_FOLDER])


def train(algorithm: str, folder: Path) -> None:
    """Trains in the experiment of this process until its last episode."""
    headrace.train(
        f"{__spec__.name}:logged",
        algorithm=ALGORITHMS[algorithm],
        topology=headrace.Serial(envs_per_actor=1, chunk_steps=1),
        seed=int(os.environ[_ID].partition("/")[2]),
        steps=_NEVER,
        evaluation_period_steps=_NEVER,
        final_evaluation_episodes=0,
        checkpoint_period_seconds=float(_NEVER),
        run_dir=folder / "run",
        quiet=True,
    )


def measure(algorithm: str, identities: Sequence[str]) -> bool:
    """Runs what has no complete log, each in a fresh process; returns whether all have one then."""
    logs = _LOGS / algorithm
    make_folder(logs)
    for identity in identities:
        if _complete(logs, identity):
            continue
        commit = origin()["commit"]  # of now: one during the run is none of it
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", __spec__.name, "--run", algorithm, folder]
            subprocess.run(command, env=os.environ | {_ID: identity, _FOLDER: str(logs)}, check=False)
        _commit_of(logs, identity).write_text(commit)
        print(f"{algorithm}, {identity}: {'logged' if _complete(logs, identity) else 'FAILED'}", flush=True)
    return all(_complete(logs, identity) for identity in identities)


def scores(algorithm: str) -> list[dict[str, Any]]:
    """A row for each experiment with complete logs: its score over these, what it tests, and which commits ran."""
    import pandas
    from bsuite import sweep
    from bsuite.experiments.summary_analysis import BSUITE_INFO
    from bsuite.logging import csv_load

    def append(first: Any, second: Any) -> Any:
        """What bsuite calls, and pandas 2 removed."""
        return pandas.concat([first, second])

    rows: list[dict[str, Any]] = []
    folder = _LOGS / algorithm
    if not list(folder.glob("*.csv")):
        return rows
    logs = csv_load.load_one_result_set(str(folder))
    for experiment, info in BSUITE_INFO.items():
        settings = [name for name in sweep.SWEEP if name.startswith(f"{experiment}/")]
        complete = [name for name in settings if _complete(folder, name)]
        if complete:
            with patch.object(pandas.Series, "append", append, create=True):
                score = float(info.score(logs[logs.bsuite_id.isin(complete)]))
            rows.append(
                {
                    "algorithm": algorithm,
                    "experiment": experiment,
                    "type": info.type,
                    "settings": len(complete),
                    "of_settings": len(settings),
                    "score": round(score, 3),
                    "runs_of_commits": " ".join(sorted({_commit_of(folder, name).read_text() for name in complete})),
                }
            )
    return rows


def _complete(logs: Path, identity: str) -> bool:
    from bsuite import sweep
    from bsuite.logging import csv_logging

    name = csv_logging.BSUITE_PREFIX + identity.replace(sweep.SEPARATOR, csv_logging.SAFE_SEPARATOR)
    rows = read_csv(logs / f"{name}.csv")
    return bool(rows) and int(rows[-1]["episode"]) >= sweep.EPISODES[identity] and _commit_of(logs, identity).exists()


def _commit_of(logs: Path, identity: str) -> Path:
    """The file with the commit that made a setting's log."""
    return logs / f"{identity.replace('/', '-')}.commit"


def main() -> int:
    """Runs what is missing, prints and writes results/bsuite_scores.csv; returns status 2 if a run failed."""
    parser = make_parser(__doc__)
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--every", type=positive, default=1, help="of each experiment, every Nth setting")
    parser.add_argument("--only", nargs="+", default=[], metavar="EXPERIMENT")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    require("bsuite")
    if options.run:
        train(options.run[0], Path(options.run[1]))
        return 0
    names = [name.removeprefix(BSuite.prefix).split("/") for name in BSuite().names()]
    unknown = set(options.only) - {experiment for experiment, _ in names}
    if unknown:
        parser.error(f"argument --only: bsuite has no experiment {', '.join(sorted(unknown))}")
    wanted = [
        f"{experiment}/{number}"
        for experiment, number in names
        if int(number) % options.every == 0 and (not options.only or experiment in options.only)
    ]
    complete = [measure(algorithm, wanted) for algorithm in options.algorithms]
    rows = [row for algorithm in ALGORITHMS for row in scores(algorithm)]
    with Rows("bsuite_scores", key=("algorithm", "experiment")) as kept:
        for row in rows:
            print("{algorithm:6} {experiment:22} {score:6.3f}  {settings} of {of_settings} settings".format(**row))
            kept.add(row)
        if not all(complete):
            sys.exit(2)
    return 0


if __name__ == "__main__":
    run(main)
