"""A study in its directory: Optuna chooses the settings of trials, prunes them, and keeps their scores."""

import dataclasses
import fcntl
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from headrace.errors import CheckpointError, ConfigError, StorageError, require
from headrace.fields import write_fields
from headrace.report.formats import count, duration, score_text
from headrace.report.output import cut_torn_line
from headrace.report.run_paths import require_printable
from headrace.servers import shown as shown_address
from headrace.settings import RunConfig
from headrace.tuning.space import Space, apply
from headrace.tuning.trial import Outcome, Trial

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState
except ImportError as error:
    raise ConfigError(f"tune needs the package optuna: pip install 'headrace[tune]' ({error})") from None

__all__ = ["PARTS", "Study", "TrialRow", "shown", "shown_value"]

PARTS = 20
"""Parts of a run's length at whose ends trials are compared."""
_WARM_UP_PARTS = 5
_MISTAKES = 3
_FILE = "study.log"
_LOCK = ".lock"
_INTERRUPTED = "interrupted"
_NAMES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
_STATES = (*_NAMES.values(), _INTERRUPTED)
"""In the order of a table."""


class TrialRow(NamedTuple):
    """A trial that has ended, as tables show it."""

    number: int
    state: str
    """complete, pruned, failed or interrupted."""
    score: float | None
    """Mean return of its last evaluation."""
    settings: dict[str, Any]
    """The values that the study chose, by name; some are missing if it was killed while it chose."""
    environment_steps: int
    seconds: float
    """Training time."""
    path: Path
    """Run directory."""
    note: str
    """The reason of a failure."""
    curve: dict[int, float]
    """Scores at the ends of parts of the run's length."""


@dataclass
class _Running:
    chosen: "optuna.Trial"
    evaluations: list[tuple[float, float]] = field(default_factory=list)  # share of the run's length, and score
    environment_steps: int = 0  # at the last evaluation
    seconds: float = 0.0
    pruned: bool = False


class Study:
    """The trials of a run's settings, in a directory that one process at a time has open. One thread.

    `config` has the settings that all trials share, `spaces` those that the study chooses, and `say` shows a line.
    Each trial has its own seed. Raises ConfigError if the directory holds a study with other settings, CheckpointError
    if it holds anything else or is in use.
    """

    def __init__(
        self, path: Path, config: RunConfig, spaces: Sequence[Space], say: Callable[[str], None], *, parallel: int
    ) -> None:
        limited = config.steps is not None or config.time_limit_seconds is not None
        require("steps", "none", limited, "given, or a time limit: a trial that stays below its score would never end")
        episodes = config.final_evaluation_episodes
        require("final_evaluation_episodes", episodes, episodes > 0, "above 0: they are a trial's score")
        address = config.server.address
        require("server", shown_address(address or ""), address is None, "left out: each trial has its own")
        require_printable(path, "study directory")
        self.path = path
        self.config = config
        """The settings that all trials share."""
        self._spaces = spaces
        self._say = say
        self._running: dict[int, _Running] = {}
        self._errors: list[str] = []  # of this process's trials, as long as all fail by a user's mistake
        self._lock: int | None = _lock(path)
        try:
            self._study = _open(path, config, spaces, parallel)
        except BaseException:
            self.close()
            raise

    @property
    def trials(self) -> int:
        """Trials that run or have ended, without interrupted ones."""
        return len(self._running) + sum(row.state != _INTERRUPTED for row in self.rows())

    def start(self) -> Trial | None:
        """Chooses the settings of another trial; None if they do not fit together, which fails the trial."""
        chosen = self._study.ask()
        values = {space.name: space.suggest(chosen) for space in self._spaces}
        self._running[chosen.number] = _Running(chosen)
        self._say(f"trial {chosen.number}: {shown(values)}")
        try:
            config = apply(dataclasses.replace(self.config, seed=self.config.seed + chosen.number), values)
        except ConfigError as error:
            self.end(chosen.number, Outcome(error=str(error), mistake=True))
            return None
        return Trial(chosen.number, config, self._run_path(chosen.number))

    def report(self, number: int, record: Mapping[str, Any]) -> bool:
        """Adds a trial's evaluation, a record of metrics.jsonl; returns whether the trial is to be stopped."""
        running = self._running[number]
        chosen, evaluations = running.chosen, running.evaluations
        steps, seconds, score = record["environment_steps"], record["seconds"], record["mean_return"]
        running.environment_steps, running.seconds = steps, seconds
        self._say(f"trial {number}: {score_text(score)} after {count(steps)} steps, {duration(seconds)}")
        if score is None:
            return False
        share = max(steps / (self.config.steps or math.inf), seconds / (self.config.time_limit_seconds or math.inf))
        evaluations.append((share, score))
        _report_parts(chosen, evaluations)
        if share >= 1 or not chosen.should_prune():
            return False
        self._say(f"trial {number}: its scores are below the median of earlier trials; it is stopped")
        running.pruned = True
        return True

    def end(self, number: int, outcome: Outcome) -> None:
        """Adds how a trial ended; raises ConfigError if the first three trials fail by the same user's mistake."""
        running = self._running.pop(number)
        chosen, evaluations = running.chosen, running.evaluations
        score = evaluations[-1][1] if outcome.score is None and evaluations else outcome.score
        known = {
            "score": score,
            "environment_steps": max(outcome.environment_steps, running.environment_steps),
            "seconds": max(outcome.seconds, running.seconds),
        }
        for name, value in known.items():
            chosen.set_user_attr(name, value)
        if outcome.error:
            chosen.set_user_attr("note", outcome.error)
            self._study.tell(chosen, state=TrialState.FAIL)
            self._say(f"trial {number}: failed: {outcome.error}")
        elif outcome.interrupted:
            self._study.tell(chosen, state=TrialState.PRUNED if running.pruned else TrialState.FAIL)
            self._say(f"trial {number}: {'pruned' if running.pruned else 'interrupted'}, score {score_text(score)}")
        else:
            self._study.tell(chosen, score)
            best = self._study.best_trial
            shown_best = f"best: trial {best.number}, {score_text(best.value)}"
            self._say(f"trial {number}: complete, score {score_text(score)}; {shown_best}")
        self._require_no_common_mistake(outcome)

    def rows(self) -> list[TrialRow]:
        """The trials that have ended, the best first."""
        rows = [self._row(trial) for trial in self._study.get_trials(deepcopy=False) if trial.state.is_finished()]
        return sorted(rows, key=lambda row: (_STATES.index(row.state), -(row.score or 0.0), row.number))

    def close(self) -> None:
        """Lets other processes open the study; a second call has no effect."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_path(self, number: int) -> Path:
        return self.path / "trials" / f"{number:04}"

    def _row(self, trial: "optuna.trial.FrozenTrial") -> TrialRow:
        known = trial.user_attrs
        return TrialRow(
            trial.number,
            _INTERRUPTED if trial.state == TrialState.FAIL and "note" not in known else _NAMES[trial.state],
            known.get("score"),
            dict(trial.params),
            known.get("environment_steps", 0),
            known.get("seconds", 0.0),
            self._run_path(trial.number),
            known.get("note", ""),
            dict(trial.intermediate_values),
        )

    def _require_no_common_mistake(self, outcome: Outcome) -> None:
        if len(self._errors) >= _MISTAKES or outcome.interrupted:
            return
        self._errors.append(outcome.error if outcome.mistake else "")
        if len(self._errors) == _MISTAKES and len(set(self._errors)) == 1 and outcome.mistake:
            raise ConfigError(f"the first {_MISTAKES} trials failed: {outcome.error}")


def shown(values: Mapping[str, Any]) -> str:
    """Settings in a line: learning-rate 0.00123, batch-size 64."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in values.items())


def shown_value(value: Any) -> str:
    """A setting's value with at most four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _report_parts(chosen: "optuna.Trial", evaluations: Sequence[tuple[float, float]]) -> None:
    """Reports the scores at the ends of the parts that the last evaluation passed, interpolated between evaluations.

    Optuna compares values of the same step only, and evaluations are made at different moments in each trial.
    """
    share, score = evaluations[-1]
    last = min(PARTS, int(share * PARTS))
    if len(evaluations) == 1:
        chosen.report(score, last)
        return
    before, former = evaluations[-2]
    for part in range(int(before * PARTS) + 1, last + 1):
        weight = min(1.0, (part / PARTS - before) / (share - before))
        chosen.report(former + weight * (score - former), part)


def _open(path: Path, config: RunConfig, spaces: Sequence[Space], parallel: int) -> "optuna.Study":
    """Creates the study, or opens it with the same settings; trials that a killed process left are interrupted."""
    given = json.loads(json.dumps({**write_fields(config), "tune": {space.name: space.text for space in spaces}}))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    (path / f"{_FILE}.lock").unlink(missing_ok=True)  # of a process that was killed: only this one has the study open
    try:
        study = optuna.create_study(
            storage=JournalStorage(_Journal(path / _FILE)),
            pruner=optuna.pruners.MedianPruner(n_warmup_steps=_WARM_UP_PARTS),
            study_name="study",
            direction="maximize",
            load_if_exists=True,
        )
    except (ValueError, LookupError, TypeError) as error:
        raise CheckpointError(f"{path / _FILE} is not a study: {error!r}") from error
    stored = study.user_attrs.get("settings")
    if stored is None:
        study.set_user_attr("settings", given)
    elif stored != given:
        raise ConfigError(
            f"study directory {path} holds a study with other settings ({_difference(stored, given)}); give the same, "
            "or choose another --study-dir"
        )
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        if not trial.state.is_finished():
            study.tell(trial.number, state=TrialState.FAIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        seed = (config.seed + len(trials)) % 2**32  # a continued study must not begin with the same values again
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=parallel > 1)
    return study


class _Journal(JournalFileBackend):  # type: ignore[misc]  # Any: see follow_imports
    """Optuna's file of a line for each operation; raises StorageError, and leaves no unfinished line.

    Raises ValueError for a file of something else.
    """

    def __init__(self, path: Path) -> None:
        cut_torn_line(path)  # of a process that was killed, or had no space
        text = path.read_bytes() if path.exists() else b""
        if text and not (text.startswith(b"{") and text.endswith(b"\n")):
            raise ValueError("it holds no records")
        super().__init__(str(path))
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Writes lines."""
        try:
            super().append_logs(logs)
        except OSError as error:
            cut_torn_line(self._path)
            raise StorageError(f"can't write {self._path}: {error.strerror}") from error


def _difference(stored: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The first setting that differs."""
    for name in (*given, *stored):
        there, here = stored.get(name), given.get(name)
        if there != here:
            if isinstance(there, dict) and isinstance(here, dict):
                return _difference(there, here)
            return f"{name} is {there} there and {here} here"
    return ""


def _lock(path: Path) -> int:
    """Makes the directory if it is missing, and locks it; returns the lock's descriptor."""
    try:
        trials = path / "trials"
        found = {entry.name for entry in path.iterdir()} if path.exists() else set()
        if trials.is_dir() and not any(trials.iterdir()):
            found.remove(trials.name)  # left by a process that was killed at its start
        if found - {_LOCK} and _FILE not in found:
            raise CheckpointError(f"study directory {path} holds other files; choose another --study-dir")
        if trials.name in found and not (path / _FILE).stat().st_size:
            raise CheckpointError(
                f"{path / _FILE} is empty, but {trials} holds trials of a study; choose another --study-dir"
            )
        trials.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise CheckpointError(f"study directory {path} is in use by another process; wait until it ends") from None
    return lock
