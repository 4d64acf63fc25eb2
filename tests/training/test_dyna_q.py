"""Runs that plan: in turn, in threads, and in processes of which one is killed."""

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace import DynaQ, Processes, Simulated
from headrace._native import Server
from headrace.report.display import QuietDisplay
from headrace.report.progress import Progress
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig, ServerConfig
from headrace.training import Result, Trainer

from .conftest import CORRIDOR, TOPOLOGIES, threads
from .test_faults import SMALL, TOY, learning, roles, start, train, wait_for

PLANNING = DynaQ(
    hidden=(32,),
    batch_size=32,
    replay_capacity=5_000,
    learning_starts=200,
    samples_per_step=16,
    target_update_period=50,
    epsilon_decay_steps=1_000,
    publish_period=5,
    ensemble_size=2,
    model_hidden=(32,),
    model_batch_size=32,
    model_samples_per_step=8,
    model_error_limit=0.3,
    rollout_steps=1,
    simulated_capacity=2_000,
)
FLAGS = [*SMALL, "--algorithm", "dyna-q", "--model-hidden", "32", "--model-batch-size", "32", "--ensemble-size", "2"]
FLAGS += ["--model-samples-per-step", "2", "--simulated-capacity", "2000", "--model-error-limit", "0.9"]


def planners(pid: int) -> list[int]:
    """Process ids of a run's planners."""
    return roles(pid, b"planner")


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [record for record in lines if record["kind"] == kind]


def test_a_serial_run_that_plans_learns_and_reports_its_model(tmp_path: Path) -> None:
    config = RunConfig(
        CORRIDOR,
        PLANNING,
        TOPOLOGIES["serial"],
        steps=4_000,
        evaluation_period_steps=100_000,
        final_evaluation_episodes=20,
    )
    with RunDirectory.create(tmp_path / "run", config.to_json()) as run:
        result = Result(run, Trainer(config, run, QuietDisplay(), launcher=threads).run())
    assert result.summary["algorithm"] == "dyna-q"
    assert result.summary["mean_return"] >= 0.9  # the corridor's end is worth 1
    last = records(tmp_path / "run", "planning")[-1]
    assert 0 < last["model_error"] < 0.3
    assert last["simulated"] > 0
    assert last["model_version"] > 100
    assert result.summary["samples_per_insert"] == pytest.approx(16, rel=0.05)  # real and simulated ones


@pytest.mark.parametrize("apart", [False, True])
def test_an_apex_run_trains_on_what_its_planner_simulates(tmp_path: Path, apart: bool) -> None:
    """Nothing waits for a planner, so the run continues until batches have contained simulated transitions.

    With the run's own server it is a run in simulated time, where its end depends on the seed only.
    """
    server, costs = Server(), tmp_path / "costs.json"
    costs.write_text('{"environment": "2ms", "gradient": "10ms", "start": "10ms"}')
    config = RunConfig(
        CORRIDOR,
        dataclasses.replace(PLANNING, model_error_limit=1e9, disagreement_limit=1e9),
        TOPOLOGIES["apex"],
        steps=10**9,
        evaluation_period_seconds=1e6,
        final_evaluation_episodes=1,
        server=ServerConfig(server.listen("unix:@"), "some") if apart else ServerConfig(),
        launcher=Processes() if apart else Simulated(cores=4, costs=costs),
    )

    class UntilSimulated(QuietDisplay):
        def update(self, progress: Progress) -> None:
            sampled = trainer._program.table.stats()["simulated_samples"] > 0
            if sampled and any(record.get("simulated", 0) > 0 for record in run.read_metrics()):
                trainer._config = dataclasses.replace(config, steps=progress.environment_steps)

    with RunDirectory.create(tmp_path / "run", config.to_json()) as run:
        trainer = Trainer(config, run, UntilSimulated(), launcher=threads if apart else None)
        summary = trainer.run()
    assert summary["stopped_by"] == "steps"
    assert summary["learner_steps"] > 0
    last = records(tmp_path / "run", "planning")[-1]
    assert last["simulated"] > 0
    assert last["model_version"] > 0
    assert server.table_names() == (["some/replay", "some/simulated", "some/transitions"] if apart else [])
    server.close()


@pytest.mark.slow
def test_a_killed_planner_is_restarted(tmp_path: Path) -> None:
    process = start(tmp_path, f"{TOY}Corridor", *FLAGS, "--steps", "1000000000")

    def simulating(generation: int) -> bool:
        return learning(tmp_path) and any(
            record["generation"] == generation and record["simulated"] > 0
            for record in records(tmp_path / "run", "planning")
        )

    wait_for(lambda: simulating(0))
    [killed] = planners(process.pid)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: simulating(1))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "planner 0 died (killed by SIGKILL" in out
    assert [record["role"] for record in records(tmp_path / "run", "exit")] == ["planner 0"]


def test_frames_are_refused_in_one_line(tmp_path: Path) -> None:
    ended = train(tmp_path, f"{TOY}Frames", "--algorithm", "dyna-q", "--network", "mlp", "--steps", "100")
    assert ended.returncode == 2
    assert "headrace: error: algorithm is dyna-q, and an observation is uint8" in ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
