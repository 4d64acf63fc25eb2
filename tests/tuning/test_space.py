"""Spaces: how they are written, what is refused, and what a value does to a configuration."""

import dataclasses
from typing import Any

import pytest

from headrace import A3C, Apex, Hogwild, ParameterServer, Ray
from headrace.errors import ConfigError
from headrace.settings import RunConfig
from headrace.tuning.space import Space, apply, read_spaces


@pytest.mark.parametrize(
    ("name", "text", "space"),
    [
        ("learning-rate", "log:1e-4:1e-2", Space("learning-rate", "log:1e-4:1e-2", "log", 1e-4, 1e-2)),
        ("learning_rate", "uniform:0.1:1", Space("learning-rate", "uniform:0.1:1", "uniform", 0.1, 1.0)),
        ("batch-size", "int:1:1k", Space("batch-size", "int:1:1k", "int", 1, 1_000)),
        ("hang-seconds", "uniform:30s:2m", Space("hang-seconds", "uniform:30s:2m", "uniform", 30.0, 120.0)),
        ("batch-size", "choice:32, 64", Space("batch-size", "choice:32, 64", "choice", choices=("32", "64"))),
    ],
)
def test_a_space_is_read(config: RunConfig, name: str, text: str, space: Space) -> None:
    assert read_spaces({name: text}, config) == [space]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("learning-rat", "log:1:2", "tune is learning-rat; .*did you mean learning-rate?"),
        ("actors", "int:1:2", "tune is actors; .* topology serial"),
        ("seed", "int:1:2", "tune is seed"),
        ("final-evaluation-episodes", "choice:0,2", "tune is final-evaluation-episodes"),
        ("epsilon-exponent", "uniform:0:7", "epsilon_exponent is given, and topology is serial"),
        ("steps", "int:1:2", "tune is steps"),
        ("topology", "choice:apex,serial", "tune is topology"),
        ("environment", "choice:a,b", "tune is environment"),
        ("learning-rate", "", "tune learning-rate is ''; it must be log:LOW:HIGH, uniform"),
        ("learning-rate", "exp:1:2", "tune learning-rate is exp:1:2; it must be log:LOW:HIGH, uniform"),
        ("learning-rate", "log:1", "tune learning-rate is log:1; it must be log:LOW:HIGH"),
        ("learning-rate", "log:1:2:3", "it must be log:LOW:HIGH"),
        ("learning-rate", "log:a:b", "it must be log:LOW:HIGH with two numbers"),
        ("learning-rate", "uniform:0:inf", "it must be uniform:LOW:HIGH with two numbers"),
        ("learning-rate", "log:0:1", "tune learning-rate is log:0:1; it must be log:LOW:HIGH with LOW above 0"),
        ("learning-rate", "log:1:1e-3", "it must be log:LOW:HIGH with LOW below HIGH"),
        ("learning-rate", "uniform:0:1", "learning_rate is 0.*; it must be above 0"),
        ("discount", "uniform:0.9:1.1", "discount is 1.1; it must be between 0 and 1"),
        ("batch-size", "int:1:1.5", "it must be int:LOW:HIGH with two whole numbers"),
        ("batch-size", "uniform:1:9", "batch_size is 1.0; it must be a whole number"),
        ("batch-size", "choice:32,0", "batch_size is 0; it must be above 0"),
        ("batch-size", "choice:32,many", "batch_size is many; it must be a whole number"),
        ("batch-size", "choice:32,", "choice:A,B,... with different values"),
        ("batch-size", "choice:32,32", "choice:A,B,... with different values"),
        ("prioritized", "choice:true,1", "prioritized is 1; it must be true or false"),
        ("network", "choice:mlp,cnn", "network is cnn; it must be one of auto, mlp"),
        ("device", "choice:cpu,cuda:99", "^tune device=choice:cpu,cuda:99: device is cuda:99; torch finds"),
        ("replay-capacity", "int:100:9000", "replay_capacity is 100; it must be at least the batch size"),
    ],
)
def test_a_mistake_names_field_value_and_what_is_required(
    config: RunConfig, name: str, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_spaces({name: text}, config)


def test_whole_numbers_are_required_inside_a_range_too(config: RunConfig) -> None:
    apex = dataclasses.replace(config, topology=Apex())
    with pytest.raises(ConfigError, match=r"pull_period is .*; it must be a whole number of steps"):
        read_spaces({"pull-period": "uniform:100:500"}, apex)


def test_the_devices_of_a_clusters_nodes_may_be_others(config: RunConfig) -> None:
    [space] = read_spaces({"device": "choice:cpu,cuda:99"}, dataclasses.replace(config, launcher=Ray()))
    assert space.choices == ("cpu", "cuda:99")


def test_what_the_topology_refuses_is_refused(config: RunConfig) -> None:
    workers = dataclasses.replace(config, algorithm=A3C(), topology=ParameterServer())
    with pytest.raises(ConfigError, match="tune replay=choice:local,global: replay is global and algorithm is a3c"):
        read_spaces({"replay": "choice:local,global"}, workers)


def test_at_least_one_setting_is_required_and_none_twice(config: RunConfig) -> None:
    with pytest.raises(ConfigError, match="tune is empty; it must be at least one NAME=VALUES"):
        read_spaces({}, config)
    with pytest.raises(ConfigError, match="tune is learning-rate; it must be given once"):
        read_spaces({"learning-rate": "log:1e-4:1e-2", "learning_rate": "log:1e-4:1e-3"}, config)


@pytest.mark.parametrize(
    ("name", "value", "where", "read"),
    [
        ("learning-rate", 0.01, "algorithm", 0.01),
        ("batch-size", "1k", "algorithm", 1_000),
        ("hidden", "64 32", "algorithm", (64, 32)),
        ("hidden", "64", "algorithm", (64,)),
        ("prioritized", "false", "algorithm", False),
        ("network", "mlp", "algorithm", "mlp"),
        ("envs-per-actor", 4, "topology", 4),
        ("evaluation-episodes", "5", "", 5),
        ("device", "cpu", "", "cpu"),
        ("checkpoint-period-seconds", "5m", "", 300.0),
    ],
)
def test_a_value_is_set_where_its_flag_sets_it(config: RunConfig, name: str, value: Any, where: str, read: Any) -> None:
    changed = apply(config, {name: value})
    assert getattr(getattr(changed, where) if where else changed, name.replace("-", "_")) == read


def test_settings_that_may_be_none_are_read(config: RunConfig) -> None:
    workers = dataclasses.replace(config, algorithm=A3C(), topology=Hogwild())
    assert apply(workers, {"workers": "2"}).topology == Hogwild(workers=2)
    assert apply(workers, {"workers": "none"}).topology == Hogwild()
