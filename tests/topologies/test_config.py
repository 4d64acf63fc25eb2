"""Requirements on a topology's settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headrace import A3C, DQN, CrossQ, DynaQ
from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.networks import Architecture
from headrace.networks.own_network import OwnNetwork, OwnParameter
from headrace.topologies.apex import Apex
from headrace.topologies.base import RunContext
from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES
from headrace.topologies.serial import Serial
from headrace.topologies.workers import AdPsgd, Hogwild, ParameterServer
from headrace.topologies.workers.program import worker_settings
from headrace.types import EnvironmentSpec

INF = float("inf")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pull_period": INF}, "pull_period is inf; it must be a finite number"),
        ({"pull_period": INF, "pull_unit": "versions"}, "pull_period is inf; it must be a finite number"),
        ({"pull_period": INF, "pull_unit": "seconds"}, "pull_period is inf; it must be a finite number"),
        ({"pull_period": 2.5}, "pull_period is 2.5; it must be a whole number of steps"),
        ({"pull_period": float("nan"), "pull_unit": "seconds"}, "pull_period is nan; it must be a finite number"),
        ({"pull_unit": "hours"}, "pull_unit is hours; it must be steps, seconds or versions"),
        ({"communication_bits": 3.5}, "communication_bits is 3.5; it must be a whole number"),
        ({"communication_bits": 1}, "communication_bits is 1; it must be a whole number from 2 to 32"),
        ({"communication_bits": 33}, "communication_bits is 33; it must be a whole number from 2 to 32"),
        ({"communication_bits": 9, "precision": "int8"}, "communication_bits is 9 and precision is int8"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Apex(**settings)


@pytest.mark.parametrize("bits", [2, 8, 32])
def test_bits_that_int8_takes(bits: int) -> None:
    assert Apex(precision="int8", communication_bits=bits).takes_int8
    assert Apex(pull_period=0.5, pull_unit="seconds", communication_bits=bits).pull_period == 0.5


def test_local_updates_need_a_period_in_which_they_last() -> None:
    with pytest.raises(ConfigError, match="local_updates is true, and fetch_period and push_period are 1"):
        ParameterServer(local_updates=True)
    assert ParameterServer(local_updates=True, push_period=2).push_period == 2
    assert ParameterServer(local_updates=True, fetch_period=2).fetch_period == 2


def test_shard_servers_are_addresses_and_each_has_a_shard() -> None:
    with pytest.raises(ConfigError, match="shard_servers is http://a; it must be addresses, tcp://, unix: or dpdk:"):
        ParameterServer(shards=2, shard_servers=("http://a",))
    with pytest.raises(ConfigError, match="shard_servers is redis://h; it must be"):  # without the password
        ParameterServer(shards=2, shard_servers=("redis://:secret@h",))
    with pytest.raises(ConfigError, match="shards is 1; it must be above 1, the number of shard_servers"):
        ParameterServer(shard_servers=("tcp://a:1",))
    further = ParameterServer(shards=4, shard_servers=("tcp://a:1", "unix:@more", "unix:more"))
    assert further.shard_servers == ("tcp://a:1", "unix:@more", f"unix:{Path.cwd()}/more")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shards": 1_025}, "shards is 1025; it must be .*1,024"),
        ({"shards": 1_024, "workers": 4}, "shards is 1024; it must be so few that 5 processes need at most 4,096"),
        ({"staleness": "compensate", "workers": 256}, "workers is 256: at most 255 are required"),
        ({"staleness": "compensate", "local_updates": True, "fetch_period": 2}, "compensate and local_updates is true"),
        ({"staleness": "compensate", "push_period": 2}, "staleness is compensate and push_period is 2: 1 is required"),
        ({"staleness_limit": 3}, "staleness_limit is 3; it must be the default unless staleness is drop"),
        ({"staleness": "drop", "compensation": 0.1}, "compensation is 0.1; it must be the default unless"),
    ],
)
def test_settings_of_a_parameter_server_without_effect_or_room_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ParameterServer(**{"workers": 2, **settings})


def test_shards_of_several_servers_share_their_connections() -> None:
    assert ParameterServer(workers=4, shards=1_024, shard_servers=("tcp://a:1",)).shards == 1_024
    assert ParameterServer(workers=255, staleness="compensate", compensation=0.1).acting_processes == 255


@pytest.mark.parametrize(
    ("topology", "algorithm", "count"),
    [
        (Serial(), DQN(), 0),
        (Apex(actors=3), DQN(), 3),
        (Apex(actors=3, precision="int8"), DQN(), 3),  # neither the evaluator nor the quantizer counts
        (Apex(actors=3), DynaQ(planners=2), 5),
        (Hogwild(workers=2), DQN(), 2),
    ],
)
def test_the_processes_that_need_a_core_are_counted(topology: Topology, algorithm: Algorithm, count: int) -> None:
    assert topology.core_count(algorithm) == count


@pytest.mark.parametrize(
    ("topology", "algorithm", "most", "fitted"),
    [
        (Serial(), DQN(), 0, Serial()),
        (Apex(), DQN(), 3, Apex(actors=3)),
        (Apex(), DQN(), 99, Apex(actors=7)),
        (Apex(), DQN(), 0, Apex(actors=1)),
        (Apex(actors=5), DQN(), 3, Apex(actors=5)),
        (Apex(), DynaQ(planners=2), 5, Apex(actors=1)),
        (Hogwild(), DQN(), 4, Hogwild(workers=4)),
        (Hogwild(), DQN(), 99, Hogwild(workers=8)),
        (Hogwild(workers=6), DQN(), 4, Hogwild(workers=6)),
    ],
)
def test_a_default_number_of_processes_is_fixed_so_that_it_fits(
    topology: Topology, algorithm: Algorithm, most: int, fitted: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("apex", "workers"):
        monkeypatch.setattr(f"headrace.topologies.{kind}.config.available_cores", lambda: 8)
    assert topology.fitted(algorithm, most) == fitted


@pytest.mark.parametrize(
    ("topology", "algorithm", "said"),
    [
        (Apex(), A3C(), "algorithm is a3c, which learns from rollouts .*: topology serial or "),
        (
            Apex(batches_ahead=8),
            DynaQ(),
            "batches_ahead is 8; it must be the default unless the algorithm has no world",
        ),
        (Hogwild(), DynaQ(), "algorithm is dyna-q, and this topology's workers do not plan"),
        (AdPsgd(l1_penalty=1e-3), DynaQ(), "algorithm is dyna-q, and this topology's workers do not plan"),
        (ParameterServer(), DynaQ(), "algorithm is dyna-q, and this topology's workers do not plan"),
        (ParameterServer(replay="global"), A3C(), "replay is global and algorithm is a3c, which has none"),
        (
            ParameterServer(),
            CrossQ(statistics_momentum=0.0),
            "algorithm is crossq, whose statistics become those of each batch: averages are required",
        ),
        (ParameterServer(push_period=100), CrossQ(), "push_period is 100 and algorithm is crossq, .* less than 100 is"),
        (
            ParameterServer(fetch_period=100),
            CrossQ(),
            "fetch_period is 100 and algorithm is crossq, .* less than 100",
        ),
        (ParameterServer(staleness="compensate"), CrossQ(), "staleness is compensate and algorithm is crossq, which"),
        (AdPsgd(l1_penalty=1e-3), CrossQ(), "l1_penalty is 0.001 and algorithm is crossq, which averages statistics"),
    ],
)
def test_an_algorithm_that_a_topology_can_not_run_is_refused(
    topology: Topology, algorithm: Algorithm, said: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        topology.require_algorithm(algorithm)


@pytest.mark.parametrize(
    ("topology", "algorithm"),
    [
        (Serial(), DynaQ()),
        (Serial(), A3C()),
        (Apex(), DynaQ()),
        (Hogwild(), DynaQ(planning=False)),
        (ParameterServer(staleness="scale", push_period=99), CrossQ()),
        (ParameterServer(fetch_period=99), CrossQ()),
        (ParameterServer(fetch_period=100, local_updates=True), CrossQ()),
        (ParameterServer(staleness="compensate"), A3C()),
        (AdPsgd(l1_penalty=1e-3), A3C()),
    ],
)
def test_other_algorithms_are_not(topology: Topology, algorithm: Algorithm) -> None:
    topology.require_algorithm(algorithm)


def test_a_penalty_is_refused_for_a_network_with_fixed_parameters() -> None:
    trained, fixed = OwnParameter("module.1.weight", (2, 3)), OwnParameter("module.0.weight", (3, 3), trained=False)
    spec = EnvironmentSpec((3,), "float32", 2)
    network = Architecture.of(spec, "mlp", ())
    both = replace(network, own=OwnNetwork("nets:build", spec, 2, False, (trained, fixed)))
    one = replace(network, own=OwnNetwork("nets:build", spec, 2, False, (trained,)))
    with pytest.raises(ConfigError, match=r"^l1_penalty is 0.001 and network is nets:build, .* for 0.weight: 0 is req"):
        AdPsgd(l1_penalty=1e-3).resolved(both)
    AdPsgd(l1_penalty=1e-3).resolved(one)
    AdPsgd(l1_penalty=1e-3).resolved(network)
    AdPsgd().resolved(both)


@pytest.mark.parametrize("kind", TOPOLOGIES.known().values())
def test_a_topology_has_the_size_that_it_is_given(kind: type[Topology]) -> None:
    sized = kind().sized(3, 5)
    assert (sized.acting_processes, sized.environments_each) == (1 if kind is Serial else 3, 5)


def test_each_worker_has_its_own_update_seed_and_the_first_that_of_the_run() -> None:
    spec = EnvironmentSpec((4,), "float32", 2)
    context = RunContext("CartPole-v1", spec, 5, A3C(), Mock(), Mock(), vectors=Mock(handles=()))
    first, *others = (worker_settings(Hogwild(workers=3), context, index).update_seed for index in range(3))
    assert first == 5
    assert len({first, *others}) == 3
