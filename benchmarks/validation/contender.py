"""One run, in this process; the benchmark starts one of these for each run.

python -m benchmarks.validation.contender PLAN CASE FOLDER

PLAN and CASE are JSON. Writes outcome.json into the folder.
"""

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.outcome import EVALUATION_PERIOD_SECONDS, PERIODIC_EPISODES, train
from benchmarks.validation.cases import Case, Plan, Setup
from headrace.launch.config import Processes
from headrace.launch.simulated import Simulated
from headrace.report.rates import begun_seconds, steady_rate
from headrace.report.run_directory import RunDirectory
from headrace.roles.clock import ACTOR_PHASES, LEARNER_PHASES
from headrace.settings import preset
from headrace.topologies.config import Topology

__all__ = ["COLUMNS", "describe_run"]

COLUMNS = (
    *("ended", "seconds_to_score", "steps_to_score", "seconds", "environment_steps", "updates"),
    *("updates_per_second", "steps_per_second", "start_seconds", "replay_ratio", "staleness", "training_cores"),
    *(f"acting_{phase}" for phase in ACTOR_PHASES),
    *(f"learning_{phase}" for phase in LEARNER_PHASES),
)
"""What a run tells; times of phases are shares of the training time of all actors, learners or workers.

Speeds are those from the first record with all processes at work and with updates, `start_seconds` after the start: so
they do not depend on how soon a run reaches the score.
"""


def describe_run(
    summary: Mapping[str, Any], progress: Sequence[Mapping[str, Any]], setup: Setup, training_cores: float
) -> dict[str, Any]:
    """The columns of a run from its summary and records of progress."""
    seconds = summary["wall_seconds"]
    learners = 1 if summary["workers"] is None else setup.processes
    acting, learning = summary["actor_times"], summary["learner_times"]
    return {
        "ended": summary["stopped_by"],
        "seconds_to_score": summary["seconds_to_score"],
        "steps_to_score": summary["steps_to_score"],
        "seconds": seconds,
        "environment_steps": summary["environment_steps"],
        "updates": summary["learner_steps"],
        "updates_per_second": steady_rate(progress, "learner_steps"),
        "steps_per_second": steady_rate(progress, "environment_steps"),
        "start_seconds": begun_seconds(progress),
        "replay_ratio": summary["samples_per_insert"],
        "staleness": summary["staleness"],
        "training_cores": training_cores,
        **{f"acting_{phase}": acting[phase] / (seconds * setup.processes) for phase in ACTOR_PHASES},
        **{f"learning_{phase}": learning[phase] / (seconds * learners) for phase in LEARNER_PHASES},
    }


def _topology(plan: Plan, setup: Setup) -> Topology:
    """The preset's, with this number of processes."""
    topology = preset(plan.environment).topology(setup.topology)
    return topology.sized(setup.processes, topology.environments_each)


def run(plan: Plan, case: Case, folder: Path) -> dict[str, Any]:
    """Trains to the score; returns the row's columns."""
    simulated = case.mode == "simulated"
    before = _processor_seconds()
    run = train(
        plan.environment,
        topology=_topology(plan, case.setup),
        until_score=plan.score,
        time_limit_seconds=plan.most_seconds,
        seed=case.seed,
        evaluation_period_seconds=EVALUATION_PERIOD_SECONDS,
        evaluation_episodes=PERIODIC_EPISODES,
        final_evaluation_episodes=0,
        launcher=Simulated(plan.cores, plan.link, Path(plan.costs)) if simulated else Processes(),
        run_dir=folder / "run",
    )
    used = run.summary["busy_cores"].get("training", 0.0)
    if not simulated:
        used = (_processor_seconds() - before) / run.summary["wall_seconds"]
    records = RunDirectory.open(folder / "run").read_metrics()
    return describe_run(run.summary, [each for each in records if each["kind"] == "progress"], case.setup, used)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Runs what the arguments say."""
    plan, (setup, seed, mode), folder = Plan(*json.loads(sys.argv[1])), json.loads(sys.argv[2]), Path(sys.argv[3])
    outcome = run(plan, Case(Setup(*setup), seed, mode), folder)
    (folder / "outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
