"""The server of a run: what is accepted, and that config.json keeps it."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.fields import read_fields
from headrace.servers import Endpoint
from headrace.settings import RunConfig, ServerConfig
from headrace.topologies.serial import Serial

TCP = "tcp://127.0.0.1:7447"


def test_config_json_keeps_it() -> None:
    config = RunConfig("CartPole-v1", server=ServerConfig(TCP, "lander-2", Path("/secrets/token")))
    assert RunConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["server"] == {"address": TCP, "run": "lander-2", "token_file": "/secrets/token"}


def test_a_config_without_a_server_means_an_embedded_one() -> None:
    record = json.loads(RunConfig("CartPole-v1").to_json())
    del record["server"]
    assert RunConfig.from_json(json.dumps(record)).server == ServerConfig()


def test_a_relative_token_file_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = ServerConfig(TCP, token_file=Path("token"))
    assert config.endpoint == Endpoint(TCP, "default", str(tmp_path / "token"), 60.0)
    assert read_fields(ServerConfig, config.to_record()).token_file == tmp_path / "token"


@pytest.mark.parametrize(("address", "recorded"), [("unix:socket", "unix:{}/socket"), ("unix:@name", "unix:@name")])
def test_a_relative_socket_is_found_from_anywhere(
    address: str, recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ServerConfig(address).to_record()["address"] == recorded.format(tmp_path)


def test_no_server_means_an_embedded_one() -> None:
    assert ServerConfig().endpoint is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"address": 3}, "^server is 3; it must be a string or none"),
        ({"address": TCP, "run": 3}, "^run is 3; it must be a string"),
        ({"address": TCP, "token_file": 3}, "^token_file is 3; it must be a path or none"),
        ({"address": "localhost:7447"}, "server is localhost:7447; it must be tcp://, unix:, dpdk: or redis://"),
        ({"address": "rediss://me:pass@h"}, "^server is rediss://me@h; it must be tcp://, unix:, dpdk: or redis://"),
        ({"address": TCP, "run": ""}, "run is empty; it must be 1 to 64 letters"),
        ({"address": TCP, "run": "a/b"}, "run is a/b; it must be 1 to 64 letters"),
        ({"address": TCP, "run": "a" * 65}, "run is a+; it must be 1 to 64 letters"),
        ({"address": TCP, "run": "ok\n"}, "it must be 1 to 64 letters"),
        ({"run": "mine"}, "run is mine; it must be left out where no server is given"),
        ({"token_file": Path("t")}, "token_file is t; it must be left out where no server is given"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServerConfig(**settings)


def test_the_longest_name_is_accepted() -> None:
    assert ServerConfig(TCP, "a.b_c-1" + "x" * 57).run.endswith("x")


def test_a_server_takes_the_topology_apex() -> None:
    with pytest.raises(ConfigError, match=r"server is tcp://.* and topology is serial, .*: leave the server out"):
        RunConfig("CartPole-v1", topology=Serial(), server=ServerConfig(TCP))
    with pytest.raises(ConfigError, match=r"^server is redis://h/1 and topology is serial"):
        RunConfig("CartPole-v1", topology=Serial(), server=ServerConfig("redis://:pass@h/1"))
