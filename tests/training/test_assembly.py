"""Settings that a topology refuses when the parts of a run are built."""

import contextlib

import pytest

from headrace import DQN, R2D2, ParameterServer, Serial
from headrace._native import Server
from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.networks.architecture import Head
from headrace.servers import Endpoint, open_server
from headrace.settings import RunConfig
from headrace.training.assembly import assemble


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [(DQN(replay_capacity=1_000), "replay_capacity is 1000; it must be at least"), (R2D2(), "recurrent policy")],
)
def test_a_mistake_leaves_what_an_earlier_run_left_on_the_server(algorithm: Algorithm, said: str) -> None:
    with contextlib.closing(Server()) as native:
        endpoint = Endpoint(native.listen("unix:@"), "run")
        with contextlib.closing(open_server(endpoint, "a2")) as server:
            server.publish("policy", b"earlier", 7)
            config = RunConfig("CartPole-v1", algorithm, ParameterServer(workers=8))
            with pytest.raises(ConfigError, match=said):
                assemble(config, server, run_id="a2", fresh=True, generation=0)
            assert server.fetch("policy") == (7, b"earlier")


def test_a_network_that_does_not_know_masks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of an algorithm of another package may be, if it has several outputs for each action."""
    monkeypatch.setattr(Head, "of", lambda spec: Head("q", spec.actions))
    config = RunConfig("headrace.environments.toy:Maze", DQN(hidden=(8,)), Serial())
    with (
        contextlib.closing(open_server(None)) as server,
        pytest.raises(ConfigError, match="algorithm is dqn, whose network applies no action masks"),
    ):
        assemble(config, server, run_id="", fresh=True, generation=0)
