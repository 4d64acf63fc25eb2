"""The runs of the study."""

from dataclasses import replace
from typing import Any, cast

from headrace.algorithms.config import Algorithm
from headrace.launch.simulated import Simulated
from headrace.settings import RunConfig, preset
from headrace.studies.concurrency.measure import Case
from headrace.topologies.apex import Apex
from headrace.topologies.config import Topology
from headrace.topologies.serial import Serial
from headrace.topologies.workers import Hogwild, ParameterServer

__all__ = [
    "BY_PRIORITY", "ENVIRONMENT", "FACTORS", "SIMULATED", "SUM", "UNCHANGED", "ablation_cases", "dyna_q_case",
    "factor_cases", "fault_case", "run_case", "simulated_case", "throughput_case",
]  # fmt: skip

ENVIRONMENT = "LunarLander-v3"
SIMULATED, FACTORS = "simulated", "factors"
BY_PRIORITY = "dyna-q, search control by priority"
"""Variant of the ablation: prioritized sweeping (Moore, Atkeson 1993) instead of uniform start states."""
UNCHANGED = "no change"
"""Variant of the factors' runs that the others are compared with."""
SUM = 64
"""Environments of all workers in the simulated runs in which more workers have fewer each."""
_FAULT_WORKERS = 4
_NEVER_SECONDS = 1e9
_TO_TARGET = {
    "until_score": 200.0,
    "time_limit_seconds": 900.0,
    "evaluation_period_seconds": 1.0,
    "evaluation_period_steps": 10_000,  # about a second of a serial run
    "checkpoint_period_seconds": _NEVER_SECONDS,
    "device": "cpu",
}
_THROUGHPUT = {
    "until_score": None,
    "time_limit_seconds": 20.0,
    "evaluation_period_seconds": _NEVER_SECONDS,
    "evaluation_period_steps": int(_NEVER_SECONDS),
    "final_evaluation_episodes": 0,
}
_ABLATION = {"steps": 200_000, "time_limit_seconds": 3_600.0, "evaluation_period_steps": 5_000}
"""More time than for other runs: planning alternates with acting, which is slow, and only steps are compared."""
_FAULTS = {"until_score": None, "steps": 200_000, "evaluation_period_seconds": _NEVER_SECONDS}
_SIMULATED = {"steps": 3_000_000, "evaluation_period_seconds": 0.0}
"""Evaluated by steps, as a serial run is: each evaluation is one more chance to reach the target."""
_FACTOR_WORKERS = 8
_MORE_WORKERS = 16
_LESS_OFTEN = 100_000
"""Environment steps between evaluations in the factor that evaluates less often."""


def run_case(algorithm: str, topology: str, workers: int, seed: int) -> Case:
    """A run to the target with the environment's preset; `workers` only matters for topologies with workers."""
    return _preset_case("runs", algorithm, topology, workers, seed)


def throughput_case(algorithm: str, topology: str, workers: int, number: int) -> Case:
    """A run of fixed time without evaluations; `number` is the round and the seed."""
    return _preset_case("throughput", algorithm, topology, workers, number, **_THROUGHPUT)


def fault_case(topology: str, seed: int, *, disturbed: bool) -> Case:
    """DQN for a fixed number of steps; if `disturbed`, a quarter of the workers are killed during the run."""
    case = _preset_case("faults", "dqn", topology, _FAULT_WORKERS, seed, **_FAULTS)
    return replace(case, killed=_FAULT_WORKERS // 4 if disturbed else 0)


def dyna_q_case(processes: int, seed: int) -> Case:
    """A run to the target with one acting process; the others plan."""
    known = preset(ENVIRONMENT, "dyna-q")
    topology = Apex(actors=1, envs_per_actor=known.sizing.environments, chunk_steps=known.sizing.chunk_steps)
    algorithm = replace(cast(Any, known.algorithm), planners=processes - 1)
    return _case("runs", "dyna-q", algorithm, topology, seed)


def simulated_case(algorithm: str, topology: str, workers: int, seed: int, *, shared_out: bool) -> Case:
    """A run to the target in simulated time, with a core for each worker.

    If `shared_out`, the workers have 64 environments in sum, otherwise those of the preset each.
    """
    changes = _SIMULATED | {"launcher": Simulated(cores=workers)}
    case = _preset_case(SIMULATED, algorithm, topology, workers, seed, **changes)
    if not shared_out:
        return case
    config = replace(case.config, topology=case.config.topology.sized(workers, SUM // workers))
    return replace(case, variant=f"{algorithm}, {SUM} environments", config=config)


def factor_cases(seed: int) -> list[Case]:
    """Runs to the target in simulated time: serial ones, and ones with workers, with one change or with two together.

    A change that also matters without workers is made to both.
    """
    dqn: Any = preset(ENVIRONMENT, "dqn").algorithm
    faster = "twice the learning rate"
    serial = Serial(envs_per_actor=SUM)
    hogwild = Hogwild(workers=_FACTOR_WORKERS, envs_per_worker=SUM // _FACTOR_WORKERS)
    server = ParameterServer(workers=_FACTOR_WORKERS, envs_per_worker=hogwild.envs_per_worker)
    both = {
        UNCHANGED: dqn,
        "no priorities": replace(dqn, prioritized=False),
        "Adam without momentum": replace(dqn, adam_beta1=0.0),
        "RMSprop instead of Adam": replace(dqn, optimizer="rmsprop"),
        "half the learning rate": replace(dqn, learning_rate=dqn.learning_rate / 2),
        faster: replace(dqn, learning_rate=2 * dqn.learning_rate),
        "exploration ends twice as soon": replace(dqn, epsilon_decay_steps=dqn.epsilon_decay_steps // 2),
        "target updates half as often": replace(dqn, target_update_period=2 * dqn.target_update_period),
        f"{_FACTOR_WORKERS} × the replay": replace(dqn, replay_capacity=_FACTOR_WORKERS * dqn.replay_capacity),
    }
    cases = [
        _factor(change, algorithm, topology, seed)
        for change, algorithm in both.items()
        for topology in (serial, hogwild)
    ]
    fewer, rarely = "16 environments in sum", f"evaluated every {_LESS_OFTEN:,} steps"
    return [
        *cases,
        *(_factor(UNCHANGED, dqn, hogwild.sized(count, SUM // count), seed) for count in (1, 2, 4, _MORE_WORKERS)),
        _factor(faster, both[faster], hogwild.sized(_MORE_WORKERS, SUM // _MORE_WORKERS), seed),
        _factor(fewer, dqn, replace(serial, envs_per_actor=16), seed),
        _factor(fewer, dqn, replace(hogwild, envs_per_worker=16 // _FACTOR_WORKERS), seed),
        _factor(rarely, dqn, serial, seed, evaluation_period_steps=_LESS_OFTEN),
        _factor(rarely, dqn, hogwild, seed, evaluation_period_steps=_LESS_OFTEN),
        replace(_factor("no staleness", dqn, hogwild, seed), instant=True),
        _factor("own optimizer state", dqn, replace(hogwild, own_optimizer_state=True), seed),
        _factor(UNCHANGED, dqn, server, seed),
        _factor("one replay for all", dqn, replace(server, replay="global"), seed),
        replace(
            _factor("one replay for all, less staleness", dqn, replace(server, replay="global"), seed), instant=True
        ),
    ]


def _factor(change: str, algorithm: Algorithm, topology: Topology, seed: int, **changes: Any) -> Case:
    launcher = Simulated(cores=topology.acting_processes)
    return _case(FACTORS, change, algorithm, topology, seed, **_SIMULATED, launcher=launcher, **changes)


def ablation_cases(seed: int) -> list[Case]:
    """The ablation of planning: DQN, DQN with as many updates, Dyna-Q, without planning, and with priorities for it.

    All alternate between acting and learning in one process, so that the steps to the target, which are compared,
    depend only on the seed.
    """
    serial = preset(ENVIRONMENT, "dyna-q").topology("serial")
    dqn, dyna_q = (cast(Any, preset(ENVIRONMENT, name).algorithm) for name in ("dqn", "dyna-q"))
    as_many = dyna_q.samples_per_step / dyna_q.batch_size * dqn.batch_size
    variants = {
        "dqn": dqn,
        "dqn, dyna-q's updates": replace(dqn, samples_per_step=as_many),
        "dyna-q": dyna_q,
        "dyna-q, no planning": replace(dyna_q, planning=False),
        BY_PRIORITY: replace(dyna_q, search_control="prioritized"),
    }
    return [_case("ablation", name, algorithm, serial, seed, **_ABLATION) for name, algorithm in variants.items()]


def _preset_case(part: str, algorithm: str, topology: str, workers: int, seed: int, **changes: Any) -> Case:
    known = preset(ENVIRONMENT, algorithm)
    chosen = known.topology(topology)
    if chosen.has_workers:
        chosen = chosen.sized(workers, chosen.environments_each)
    return _case(part, algorithm, known.algorithm, chosen, seed, **changes)


def _case(part: str, variant: str, algorithm: Algorithm, topology: Topology, seed: int, **changes: Any) -> Case:
    settings: dict[str, Any] = _TO_TARGET | changes
    return Case(part, variant, RunConfig(ENVIRONMENT, algorithm, topology, seed=seed, **settings))
