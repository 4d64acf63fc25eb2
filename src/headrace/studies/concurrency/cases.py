"""The settings of one run of the study."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, cast

from headrace.algorithms.config import Algorithm
from headrace.settings import Preset, RunConfig, preset
from headrace.studies.sheet import fingerprint
from headrace.topologies.config import Apex, Topology, TopologyName

__all__ = [
    "ENVIRONMENT",
    "KILL_AT",
    "Case",
    "ablation_cases",
    "dyna_q_case",
    "fault_case",
    "plans",
    "run_case",
    "throughput_case",
]

ENVIRONMENT = "LunarLander-v3"
KILL_AT = 1 / 3
"""Share of environment steps after which workers are killed in the part "faults"."""
_TARGET = 200.0
_TIME_LIMIT_SECONDS = 900.0
_THROUGHPUT_SECONDS = 20.0
_ABLATION_STEPS = 200_000
_ABLATION_EVALUATION_STEPS = 5_000
_ABLATION_SECONDS = 3_600.0
"""More than for other runs: planning alternates with acting, which is slow, and only steps are compared."""
_FAULT_STEPS = 200_000
_FAULT_WORKERS = 4
_EVALUATION_SECONDS = 1.0
_EVALUATION_STEPS = 10_000  # about a second of a serial run
_NEVER_SECONDS = 1e9


@dataclass(frozen=True)
class Case:
    """A run and its disturbance."""

    part: str
    variant: str
    """The algorithm's name, with the change if there is one."""
    config: RunConfig
    killed: int = 0
    """Number of workers that are killed after a third of the run."""

    def __str__(self) -> str:
        count = f" × {self.workers}" if self.topology != "serial" else ""
        end = f", {self.killed} killed" if self.killed else ""
        return f"{self.variant}, {self.topology}{count}, seed {self.config.seed}{end}"

    @property
    def name(self) -> str:
        """A name that is equal for equal settings."""
        return fingerprint(self.part, [self.variant, self.killed, json.loads(self.config.to_json())])

    @property
    def topology(self) -> str:
        """The topology's name on the command line."""
        return self.config.topology.name

    @property
    def workers(self) -> int:
        """Processes that act, learn or plan; where actors are separate, these and the planners, without the learner."""
        topology, algorithm = self.config.topology, self.config.algorithm
        planners = algorithm.world_model.planners if topology.takes_server and algorithm.world_model else 0
        return topology.acting_processes + planners

    @property
    def environments(self) -> int:
        """Total environments of all processes that act."""
        return self.config.topology.acting_processes * self.config.topology.environments_each

    @property
    def plans(self) -> bool:
        """Whether batches are partly simulated."""
        return self.config.algorithm.world_model is not None

    @property
    def samples_per_step(self) -> float | None:
        """The configured replay ratio, including simulated samples; None for an algorithm without replay."""
        replay = self.config.algorithm.replay
        return replay.samples_per_step if replay is not None else None


def plans(algorithm: str) -> bool:
    """Whether an algorithm has a world model: its processes are planners, which share no parameters."""
    return preset(ENVIRONMENT, algorithm).algorithm.world_model is not None


def run_case(algorithm: str, topology: str, workers: int, seed: int) -> Case:
    """A run to the target with the environment's preset; `workers` only matters for topologies with workers."""
    known = preset(ENVIRONMENT, algorithm)
    return Case("runs", algorithm, _config(known.algorithm, _topology(known, topology, workers), seed))


def dyna_q_case(processes: int, seed: int) -> Case:
    """A run to the target with one acting process; the others plan."""
    known = preset(ENVIRONMENT, "dyna-q")
    topology = Apex(actors=1, envs_per_actor=known.serial.envs_per_actor, chunk_steps=known.serial.chunk_steps)
    return Case("runs", "dyna-q", _config(_changed(known.algorithm, planners=processes - 1), topology, seed))


def throughput_case(algorithm: str, topology: str, workers: int, number: int) -> Case:
    """A run of fixed time without evaluations; `number` is the round and the seed."""
    known = preset(ENVIRONMENT, algorithm)
    config = _config(
        known.algorithm,
        _topology(known, topology, workers),
        number,
        until_score=None,
        time_limit_seconds=_THROUGHPUT_SECONDS,
        evaluation_period_seconds=_NEVER_SECONDS,
        evaluation_period_steps=int(_NEVER_SECONDS),
        final_evaluation_episodes=0,
    )
    return Case("throughput", algorithm, config)


def ablation_cases(seed: int) -> list[Case]:
    """The ablation of planning: DQN, DQN with as many updates, Dyna-Q, and Dyna-Q without planning.

    All alternate between acting and learning in one process, so that the steps to the target, which are compared,
    depend only on the seed.
    """
    planning = preset(ENVIRONMENT, "dyna-q")
    dqn, dyna_q = preset(ENVIRONMENT, "dqn").algorithm.replay, planning.algorithm.replay
    assert dqn is not None
    assert dyna_q is not None
    as_many = dyna_q.samples_per_step / dyna_q.batch_size * dqn.batch_size
    variants: dict[str, Algorithm] = {
        "dqn": dqn,
        "dqn, dyna-q's updates": _changed(dqn, samples_per_step=as_many),
        "dyna-q": dyna_q,
        "dyna-q, no planning": _changed(dyna_q, planning=False),
    }
    limits = {
        "steps": _ABLATION_STEPS,
        "time_limit_seconds": _ABLATION_SECONDS,
        "evaluation_period_steps": _ABLATION_EVALUATION_STEPS,
    }
    return [
        Case("ablation", name, _config(algorithm, planning.serial, seed, **limits))
        for name, algorithm in variants.items()
    ]


def fault_case(topology: str, seed: int, *, disturbed: bool) -> Case:
    """DQN for a fixed number of steps; if `disturbed`, a quarter of the workers are killed during the run."""
    known = preset(ENVIRONMENT, "dqn")
    shared = _topology(known, topology, _FAULT_WORKERS)
    changes = {"until_score": None, "steps": _FAULT_STEPS, "evaluation_period_seconds": _NEVER_SECONDS}
    config = _config(known.algorithm, shared, seed, **changes)
    return Case("faults", "dqn", config, _FAULT_WORKERS // 4 if disturbed else 0)


def _topology(known: Preset, name: str, workers: int) -> Topology:
    topology = known.topology(cast(TopologyName, name))
    changes: dict[str, Any] = {"workers": workers} if topology.has_workers else {}
    return dataclasses.replace(topology, **changes)


def _changed(algorithm: Algorithm, **changes: Any) -> Algorithm:
    return dataclasses.replace(algorithm, **changes)


def _config(algorithm: Algorithm, topology: Topology, seed: int, **changes: Any) -> RunConfig:
    """A run to the target, with changes."""
    config = RunConfig(
        ENVIRONMENT,
        algorithm,
        topology,
        seed=seed,
        until_score=_TARGET,
        time_limit_seconds=_TIME_LIMIT_SECONDS,
        evaluation_period_seconds=_EVALUATION_SECONDS,
        evaluation_period_steps=_EVALUATION_STEPS,
        checkpoint_period_seconds=_NEVER_SECONDS,
        device="cpu",
    )
    return dataclasses.replace(config, **changes)
