"""Trials on a Ray cluster: Ray Tune places each one, with the processes of its run, in a placement group."""

import contextlib
import dataclasses
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, HeadraceError, require
from headrace.fields import read_fields, read_json, write_fields, write_json
from headrace.launch.ray import Ray
from headrace.settings import RunConfig
from headrace.training.interrupts import Interrupts
from headrace.tuning.study import Study
from headrace.tuning.trial import Outcome, Stopped, Trial, run_trial

try:
    import ray
    from ray import tune
    from ray.tune.search import Searcher
except ImportError as error:
    raise ConfigError(
        f"launcher is ray, which needs Ray Tune to tune: pip install 'headrace[ray,tune]' ({error})"
    ) from None

__all__ = ["require_usable", "run_in_ray"]

_POLL_SECONDS = 1.0
_END_SECONDS = 30.0


def require_usable(config: RunConfig) -> None:
    """Raises ConfigError for settings of the launcher that a run may have but a study may not."""
    launcher = _launcher(config)
    node = launcher.server_node
    require("server_node", node, node is None, "left out: the server of each trial is in its training process")
    address = launcher.ray_address or os.environ.get("RAY_ADDRESS", "")
    inside = not address.startswith("ray://")
    require("ray_address", address, inside, "an address inside the cluster: start the study there, by ray job submit")


def run_in_ray(study: Study, trials: int, parallel: int) -> None:
    """Runs trials until the study has this many, at most `parallel` at a time, as far as the cluster has room.

    The first Ctrl-C asks the trials to save and end, and raises KeyboardInterrupt when they have; a second kills them.
    """
    os.environ |= {
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the study shows its trials
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",  # it would kill trials that need more than 10 seconds to save
    }
    for name in ("ray.tune", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with study.config.launcher.open(study.config.seed), Interrupts(lambda: None) as interrupts:
        search = _Search(study, trials, parallel, interrupts)
        try:
            with contextlib.suppress(Stopped):
                tune.Tuner(
                    _RayTrial,
                    tune_config=tune.TuneConfig(
                        search_alg=search,
                        num_samples=-1,
                        max_concurrent_trials=parallel,
                        trial_dirname_creator=lambda trial: str(trial.trial_id),
                    ),
                    run_config=tune.RunConfig(
                        name="ray",
                        storage_path=str(study.path.absolute()),
                        callbacks=[_Watch(search)],
                        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # runs have their own
                        verbose=0,
                    ),
                ).fit()
        finally:
            for trial_id in list(search.numbers):
                search.end(trial_id, Outcome(interrupted=True))
    if search.error is not None:
        raise search.error
    if interrupts.requested:
        raise KeyboardInterrupt


class _RayTrial(tune.Trainable):  # type: ignore[misc]
    """A trial in a process of the cluster: a thread trains; a step returns an evaluation, nothing or the outcome."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """A bundle for the learner, and one for each process of the run that needs a core."""
        run = read_json(Trial, config["trial"], "a trial").config
        each = {"CPU": _launcher(run).actor_cpus}
        learner = {**each, **({"GPU": 1} if run.device.startswith("cuda") else {})}
        return tune.PlacementGroupFactory([learner] + [each] * run.topology.core_count(run.algorithm), _strategy(run))

    def setup(self, config: dict[str, Any]) -> None:
        """Starts the run."""
        self._stopping = threading.Event()
        self._reports: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=[read_json(Trial, config["trial"], "a trial")])
        self._thread.start()

    def step(self) -> dict[str, Any]:
        """Waits a second for the next report, not longer: this process handles one call at a time."""
        try:
            return self._reports.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return {}

    def interrupt(self) -> None:
        """Asks the run to save and end; the outcome follows."""
        self._stopping.set()

    def cleanup(self) -> None:
        """Ends the run."""
        self.interrupt()
        self._thread.join(_END_SECONDS)

    def _run(self, trial: Trial) -> None:
        outcome = run_trial(trial, self._report)
        self._reports.put({"outcome": json.dumps(write_fields(outcome)), "done": True})

    def _report(self, record: Mapping[str, Any]) -> None:
        if self._stopping.is_set():
            raise Stopped("the trial is stopped")
        if record["kind"] == "evaluation":
            self._reports.put({"evaluation": json.dumps(dict(record))})


class _Search(Searcher):  # type: ignore[misc]
    """The study's trials that Ray Tune has; gives it others until the study has enough or is to end."""

    def __init__(self, study: Study, trials: int, parallel: int, interrupts: Interrupts) -> None:
        super().__init__(metric=None, mode=None)
        self.study = study
        self.numbers: dict[str, int] = {}
        """Numbers of the trials by Ray Tune's ids."""
        self.error: HeadraceError | None = None
        """Why the study ends; Ray Tune would wrap it."""
        self._trials = trials
        self._parallel = parallel
        self._interrupts = interrupts

    @property
    def ends(self) -> bool:
        """Whether the study is to end before it has all its trials."""
        return self.error is not None or self._interrupts.requested

    def suggest(self, trial_id: str) -> Any:
        """The next trial's settings."""
        try:
            while not self.ends and self.study.trials < self._trials:
                trial = self.study.start()
                if trial is not None:
                    self.numbers[trial_id] = trial.number
                    placed = Trial(trial.number, self._fitted(trial.config), trial.path.absolute())
                    return {"trial": write_json(placed)}
        except HeadraceError as error:
            self.error = error
        return Searcher.FINISHED

    def end(self, trial_id: str, outcome: Outcome) -> None:
        """Tells the study how a trial ended."""
        try:
            self.study.end(self.numbers.pop(trial_id), outcome)
        except HeadraceError as error:
            self.error = error

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the watch ends trials."""

    def __getstate__(self) -> dict[str, Any]:
        """Nothing, for the file in which Ray Tune describes the study."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study keeps its trials."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the study keeps its trials."""

    def _fitted(self, run: RunConfig) -> RunConfig:
        """The same with a fixed number of processes: the default is that of the machine that reads it."""
        room = min(_room("CPU", _strategy(run)), _room("CPU", "SPREAD") / self._parallel)
        others = int(room / _launcher(run).actor_cpus) - 1
        return dataclasses.replace(run, topology=run.topology.fitted(run.algorithm, others))


class _Watch(tune.Callback):  # type: ignore[misc]
    """Tells the study what happens to its trials, and asks them to end: those that it prunes, or all."""

    def __init__(self, search: _Search) -> None:
        self._search = search
        self._asked: set[str] = set()  # ids of trials that are to end
        self._started = False  # whether a trial has run
        self._idle_since = time.monotonic()

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        """Reports an evaluation to the study."""
        if "evaluation" in result:
            number = self._search.numbers[trial.trial_id]
            if self._search.study.report(number, json.loads(result["evaluation"])):
                self._ask(trial)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Ends a trial with the outcome that it reported."""
        self._search.end(trial.trial_id, read_fields(Outcome, json.loads(trial.last_result["outcome"])))

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Ends a trial whose process died or could not start."""
        reason = _reason(Path(trial.error_file).read_text(encoding="utf-8", errors="replace"))
        self._search.end(trial.trial_id, Outcome(error=f"its process died: {reason}", mistake=True))

    def on_step_end(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        """Requires room for a trial that waits; if the study is to end, raises Stopped when no trial runs any more."""
        running = [trial for trial in trials if trial.status == trial.RUNNING]
        waiting = [trial for trial in trials if trial.status == trial.PENDING]
        if running:
            self._started, self._idle_since = True, time.monotonic()
        elif waiting:
            self._require_room(waiting[0])
        if self._search.ends:
            for trial in running:
                self._ask(trial)
            if not running:
                raise Stopped("the study is stopped")

    def _ask(self, trial: Any) -> None:
        if trial.trial_id not in self._asked:
            self._asked.add(trial.trial_id)
            trial.temporary_state.ray_actor.interrupt.remote()

    def _require_room(self, trial: Any) -> None:
        """Ends the study if the first trial has waited too long, or a later one that the cluster is too small for."""
        seconds = _launcher(self._search.study.config).wait_seconds
        if time.monotonic() - self._idle_since < seconds:
            return
        group = trial.placement_group_factory
        fits = all(amount <= _room(name, group.strategy) for name, amount in group.required_resources.items())
        if not fits or not (self._started or _has_placed()):
            needed, room = (
                " and ".join(f"{of(name):g} {name}s" for name in group.required_resources)
                for of in (group.required_resources.get, lambda name: _room(name, group.strategy))
            )
            where = "on one node" if group.strategy == "STRICT_PACK" else "in all"
            self._search.error = ConfigError(
                f"the cluster had no room for a trial for {seconds:g} s (--wait-seconds): it needs {needed} {where} "
                f"(--actor-cpus for each process), and there are {room}, whether free or not"
            )


def _launcher(config: RunConfig) -> Ray:
    assert isinstance(config.launcher, Ray)
    return config.launcher


def _strategy(run: RunConfig) -> str:
    """The strategy of a trial's placement group."""
    return _launcher(run).placement.upper() if run.topology.takes_server else "STRICT_PACK"  # it shares memory


def _room(resource: str, strategy: str) -> float:
    """How much of a resource a placement group with this strategy can have if the cluster does nothing else."""
    nodes = [node["Resources"].get(resource, 0.0) for node in ray.nodes() if node["Alive"]]
    return float(max(nodes, default=0.0) if strategy == "STRICT_PACK" else sum(nodes))


def _has_placed() -> bool:
    """Whether the cluster has made room for a trial, whose process then starts; a group's id ends with its job's."""
    job = ray.get_runtime_context().get_job_id()
    groups = ray.util.placement_group_table().items()
    return any(group["state"] == "CREATED" and name.endswith(job) for name, group in groups)


def _reason(text: str) -> str:
    """What Ray Tune wrote about a failed trial, in a line that does not name the process."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][1:]  # after a heading with the time
    if not lines:
        return "no reason is known"
    if "Traceback" in text:
        return lines[-1]
    return (text.rpartition("exit detail:")[2] if "exit detail:" in text else lines[0]).strip().split(". ")[0]
