"""A run's configuration to JSON and back."""

import json
from pathlib import Path

import pytest

from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.errors import CheckpointError
from headrace.settings import RunConfig, ServerConfig
from headrace.topologies.apex import Apex
from headrace.topologies.serial import Serial


@pytest.mark.parametrize(
    ("algorithm", "topology", "names"),
    [
        (DQN(hidden=(3, 4), double=False), Serial(envs_per_actor=2), ("dqn", "serial")),
        (
            D4PG(hidden=(5,), critic_hidden=(6, 7, 8), sigmas=(0.0, 0.5, 0.1), value_min=0),
            Apex(actors=3, precision="int8", communication_bits=6, pull_period=0.5, pull_unit="seconds"),
            ("d4pg", "apex"),
        ),
    ],
)
def test_json_and_back(algorithm, topology, names):
    config = RunConfig("X", algorithm, topology, steps=5, until_score=-1.5)
    read = RunConfig.from_json(config.to_json())
    assert read == config
    assert (read.algorithm.name, read.topology.name) == names
    assert hash(read.algorithm) == hash(algorithm)  # a list, which JSON has for a tuple, would have none


def test_the_server_is_kept():
    config = RunConfig("X", server=ServerConfig("tcp://h:1", "a", Path("/token")))
    assert RunConfig.from_json(config.to_json()).server == config.server


def test_a_removed_setting_is_reported_as_another_versions():
    record = json.loads(RunConfig("X").to_json())
    record["algorithm"]["adam_epsilon"] = 1e-8
    with pytest.raises(CheckpointError, match=r"or that of another version \(.*adam_epsilon"):
        RunConfig.from_json(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": 5}, "environment is 5; it must be a string"),
        ({"environment": ""}, "environment is ''"),
        ({"seed": 1.5}, "seed is 1.5; it must be a whole number"),
        ({"until_score": float("nan")}, "until_score is nan; it must be a finite number"),
        (
            {"algorithm": {"name": "dqn", "batch_size": 12.5}},
            "algorithm: batch_size is 12.5; it must be a whole number",
        ),
        ({"algorithm": {"name": "dqn", "double": "no"}}, "algorithm: double is 'no'; it must be true or false"),
        ({"algorithm": {"name": ["dqn"]}}, "algorithm: name is \\['dqn'\\]; it must be one of dqn, dyna-q, d4pg"),
        ({"topology": {"name": "apex", "actors": "2"}}, "topology: actors is '2'; it must be a whole number or none"),
        ({"server": {"address": 3}}, "server: address is 3; it must be a string or none"),
        ({"server": 3}, "server is 3; it must be an object"),
        ({"place": {"server": None, "run": "default"}}, "place is .*RunConfig has no such field"),
        ({"color": "red"}, "color is 'red'"),
    ],
)
def test_an_edited_value_is_named_with_what_is_required(change, message):
    record = json.loads(RunConfig("X").to_json()) | change
    with pytest.raises(CheckpointError, match=rf"^config.json is .*\({message}"):
        RunConfig.from_json(json.dumps(record))


@pytest.mark.parametrize("algorithm", [{"name": "sarsa"}, {"name": "dqn", "sigmas": [0.1]}, {"hidden": [3]}, 3])
def test_an_invalid_configuration_is_refused(algorithm):
    record = json.loads(RunConfig("X").to_json()) | {"algorithm": algorithm}
    with pytest.raises(CheckpointError, match=r"^config.json is not a run's configuration"):
        RunConfig.from_json(json.dumps(record))
