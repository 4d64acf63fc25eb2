"""Trials on a Ray cluster: Ray Tune places each one, with the processes of its run, in a placement group."""

import dataclasses
import json
import logging
import os
import queue
import threading
from collections.abc import Mapping
from typing import Any

from headrace.errors import ConfigError, HeadraceError
from headrace.fields import read_fields, read_json, write_fields, write_json
from headrace.launch.config import Ray
from headrace.settings import RunConfig
from headrace.tuning.study import Study
from headrace.tuning.trial import Outcome, Trial, run_trial

try:
    from ray import tune
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
    from ray.tune.search import Searcher
    from ray.tune.stopper import Stopper
except ImportError as error:
    raise ConfigError(
        f"launcher is ray, which needs Ray Tune to tune: pip install 'headrace[ray,tune]' ({error})"
    ) from None

__all__ = ["run_in_ray"]

_END_SECONDS = 30.0


def run_in_ray(study: Study, trials: int, parallel: int) -> None:
    """Runs trials until the study has this many, at most `parallel` at a time, as far as the cluster has room.

    Raises KeyboardInterrupt if Ctrl-C ended them.
    """
    os.environ |= {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_AIR_NEW_OUTPUT": "0"}  # the study shows its trials
    for name in ("ray.tune", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    search = _Search(study, trials)
    with study.config.launcher.open():
        try:
            tune.Tuner(
                _RayTrial,
                tune_config=tune.TuneConfig(
                    search_alg=search,
                    scheduler=_Pruning(search),
                    num_samples=-1,
                    max_concurrent_trials=parallel,
                    trial_dirname_creator=lambda trial: str(trial.trial_id),
                ),
                run_config=tune.RunConfig(
                    name="ray",
                    storage_path=str(study.path.absolute()),
                    stop=_Stop(search),
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # runs have their own
                    verbose=0,
                ),
            ).fit()
        finally:
            interrupted = search.end_all()
    if search.error is not None:
        raise search.error
    if interrupted:
        raise KeyboardInterrupt


class _Stopped(HeadraceError):
    """The trial is to end; its run saves what it has learned."""


class _RayTrial(tune.Trainable):  # type: ignore[misc]
    """A trial in a process of the cluster: a thread trains; a step returns an evaluation or, last, the outcome."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """A bundle for the learner, and one for each other process of the run."""
        run = read_json(Trial, config["trial"], "a trial").config
        launcher = _launcher(run)
        each = {"CPU": launcher.actor_cpus}
        learner = {**each, **({"GPU": 1} if run.device.startswith("cuda") else {})}
        strategy = launcher.placement.upper() if run.topology.takes_server else "STRICT_PACK"  # it shares memory
        return tune.PlacementGroupFactory([learner] + [each] * run.topology.role_count(run.algorithm), strategy)

    def setup(self, config: dict[str, Any]) -> None:
        """Starts the run."""
        self._stopping = threading.Event()
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=[read_json(Trial, config["trial"], "a trial")])
        self._thread.start()

    def step(self) -> dict[str, Any]:
        """Waits for the next report."""
        return self._reports.get()

    def cleanup(self) -> None:
        """Ends the run."""
        self._stopping.set()
        self._thread.join(_END_SECONDS)

    def _run(self, trial: Trial) -> None:
        outcome = run_trial(trial, self._report)
        self._reports.put({"outcome": json.dumps(write_fields(outcome)), "done": True})

    def _report(self, record: Mapping[str, Any]) -> None:
        if self._stopping.is_set():
            raise _Stopped("the trial is stopped")
        if record["kind"] == "evaluation":
            self._reports.put({"evaluation": json.dumps(dict(record))})


class _Search(Searcher):  # type: ignore[misc]
    """Gives the study's trials to Ray Tune, and their outcomes to the study."""

    def __init__(self, study: Study, trials: int) -> None:
        super().__init__(metric=None, mode=None)
        self.study = study
        self.numbers: dict[str, int] = {}
        self.error: HeadraceError | None = None
        self._trials = trials

    def suggest(self, trial_id: str) -> Any:
        """The next trial's settings."""
        try:
            while self.error is None and self.study.trials < self._trials:
                trial = self.study.start()
                if trial is not None:
                    self.numbers[trial_id] = trial.number
                    return {"trial": write_json(dataclasses.replace(trial, path=trial.path.absolute()))}
        except HeadraceError as error:  # Ray Tune would wrap it
            self.error = error
        return Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Ends the trial."""
        if result is not None and "outcome" in result and not error:
            outcome = read_fields(Outcome, json.loads(result["outcome"]))
        else:
            outcome = Outcome(interrupted=not error, error="its process died" if error else "")
        self._end(trial_id, outcome)

    def end_all(self) -> bool:
        """Ends the trials that still ran; returns whether there were any."""
        left = list(self.numbers)
        for trial_id in left:
            self._end(trial_id, Outcome(interrupted=True))
        return bool(left)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study keeps its trials."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the study keeps its trials."""

    def _end(self, trial_id: str, outcome: Outcome) -> None:
        try:
            self.study.end(self.numbers.pop(trial_id), outcome)
        except HeadraceError as error:
            self.error = error


class _Pruning(FIFOScheduler):  # type: ignore[misc]
    """Stops the trials that the study prunes."""

    def __init__(self, search: _Search) -> None:
        super().__init__()
        self._search = search

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Gives an evaluation to the study."""
        number = self._search.numbers[trial.trial_id]
        stop = self._search.study.report(number, json.loads(result["evaluation"]))
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)


class _Stop(Stopper):  # type: ignore[misc]
    """Ends all trials after an error of the study."""

    def __init__(self, search: _Search) -> None:
        self._search = search

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether to stop one trial."""
        return False

    def stop_all(self) -> bool:
        """Whether to stop all trials."""
        return self._search.error is not None


def _launcher(config: RunConfig) -> Ray:
    assert isinstance(config.launcher, Ray)
    return config.launcher
