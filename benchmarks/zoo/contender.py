"""One run of one system, in this process; the zoo starts one of these for each run.

python -m benchmarks.zoo.contender SYSTEM TASK SEED MOST_SECONDS FOLDER

TASK is a task's name. Writes outcome.json into the folder and, for this package, policy.onnx and config.json.
"""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.outcome import CONFIRMATION_EPISODES, FRESH_SEED, PERIODIC_EPISODES, Outcome, Rule, train
from benchmarks.validation.runs import calibrate_once
from benchmarks.zoo.runs import FOLDER
from benchmarks.zoo.tasks import HEADRACE, SIMULATED, TASKS, TIMED, Task
from headrace.errors import ConfigError, DivergenceError
from headrace.launch.config import LauncherConfig, Processes
from headrace.launch.simulated import Simulated
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.results import make_folder
from headrace.training import export

_PEERS = {"sb3": "benchmarks.sb3", "cleanrl": "benchmarks.cleanrl_dqn", "torchrl": "benchmarks.torchrl_dqn"}


def run_headrace(system: str, task: Task, seed: int, rule: Rule, folder: Path) -> Outcome:
    """A preset of this package, by its public interface."""
    known = preset(task.environment, task.algorithm, frugal=system == "frugal")
    name: Any = known.topology_name if system == "frugal" else system.removesuffix("-int8")
    options: dict[str, Any] = {}
    launcher: LauncherConfig = Processes()
    if system in SIMULATED:
        name, options = "hogwild", {"workers": SIMULATED[system]}
        costs = FOLDER / "costs" / f"{task.name.replace('/', '-')}.json"
        make_folder(costs.parent)
        if not costs.exists() and available_cores() < 2:
            raise ConfigError(f"{costs} would be measured on one core, where none slows another: 2 are required")
        link = calibrate_once(task.environment, known.algorithm, costs)
        launcher = Simulated(SIMULATED[system], link, costs)
    elif system.endswith("-int8"):
        options = {"precision": "int8"}
    topology = dataclasses.replace(known.topology(name), **options)
    result = train(
        task.environment,
        algorithm=known.algorithm,
        topology=topology,
        until_score=rule.score,
        steps=rule.most_steps,
        time_limit_seconds=rule.most_seconds,
        seed=seed,
        evaluation_period_seconds=task.period_seconds if system in TIMED else 0.0,  # 0: by steps
        evaluation_period_steps=task.period_steps,
        evaluation_episodes=PERIODIC_EPISODES,
        final_evaluation_episodes=0,
        launcher=launcher,
        run_dir=folder / "run",
    )
    fresh = result.evaluate(CONFIRMATION_EPISODES, seed=FRESH_SEED + seed)
    export(result.run, folder / "policy.onnx")
    (folder / "config.json").write_text(result.run.read_config_text())
    summary = result.summary
    return Outcome(
        summary["seconds_to_score"],
        summary["steps_to_score"],
        summary["environment_steps"],
        summary["learner_steps"],
        summary["wall_seconds"],
        summary["mean_return"],
        fresh.mean,
        fresh.std,
        "frugal preset" if known.frugal else "preset",
    )


def main() -> None:
    """Runs what the arguments say."""
    system, name, number, most_seconds, place = sys.argv[1:]
    folder, seed = Path(place), int(number)
    task = next(each for each in TASKS if each.name == name)
    rule = Rule(task.stop_at, float(most_seconds), task.most_steps(system), period_steps=task.period_steps)
    record: dict[str, Any]
    if system in HEADRACE:
        try:
            record = run_headrace(system, task, seed, rule, folder)._asdict()
        except DivergenceError:  # counts as a run that did not reach its threshold, as a peer's does
            record = {"diverged": True}
    else:
        peer = importlib.import_module(_PEERS[system])
        record = peer.run(task.environment, task.algorithm, seed, rule)._asdict()
    (folder / "outcome.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main()
