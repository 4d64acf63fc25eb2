"""`--metrics-listen` and `--track`."""

import socket
import sys
import urllib.request
from unittest.mock import MagicMock

import pytest

from headrace import DQN, Apex
from headrace.cli.main import main
from headrace.cli.sinks import Sinks
from headrace.report import RunDirectory
from headrace.settings import RunConfig, ServerConfig


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_server_shows_its_metrics(serve, quiet):
    pytest.importorskip("prometheus_client")
    started = serve("--metrics-listen", "0", "--memory", "1G", *quiet)
    address = next(line for line in iter(started.line, "") if line.startswith("metrics")).split()[1]
    assert "headrace_server_memory_limit_bytes 1e+09\n" in read(address)
    assert started.stop()[0] == 0


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_run_shows_its_metrics_while_it_trains(quiet, monkeypatch, training, capsys):
    pytest.importorskip("prometheus_client")
    seen = []

    def train(config, run, display, **options):
        run.append({"kind": "progress", "environment_steps": 7, "seconds": 1.0})
        address = capsys.readouterr().out.split("metrics at ")[1].split()[0]
        seen.append(read(address))
        return original(config, run, display, **options)

    original, training.train = training.train, train
    assert main(["train", "CartPole-v1", "--metrics-listen", "127.0.0.1:0", *quiet]) == 0
    assert "headrace_run_environment_steps_total 7.0\n" in seen[0]
    assert 'algorithm="dqn",environment="CartPole-v1",topology="apex"' in seen[0]


@pytest.mark.parametrize(
    ("words", "module", "complaint"),
    [
        (["--metrics-listen", "x"], None, "metrics_listen is 'x'; it must be HOST:PORT or PORT"),
        (["--metrics-listen", "0"], "prometheus_client", 'pip install "headrace[metrics]"'),
        (["--track", "wandb"], "wandb", 'pip install "headrace[wandb]"'),
        (["--track", "other"], None, "wandb"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words, module, complaint, training, monkeypatch, tmp_path, capsys):
    if module is not None:
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, "headrace.report.metrics", raising=False)
    elif "--metrics-listen" in words:
        pytest.importorskip("prometheus_client")
    assert main(["train", "CartPole-v1", *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_metrics_are_not_served_by_a_polling_server(capsys):
    assert main(["serve", "--listen", "dpdk:memif,x", "--metrics-listen", "0"]) == 2
    assert "metrics_listen is 0; it must be left out with a dpdk: address" in capsys.readouterr().err


def test_a_server_whose_metrics_address_is_refused_offers_none(capsys):
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert main(["serve", "--listen", "tcp://127.0.0.1:0", "--metrics-listen", port]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"metrics_listen is '{port}', which can't be used" in printed.err


@pytest.mark.parametrize(("address", "sent"), [(None, None), ("redis://user:secret@host:1", "redis://user@host:1")])
def test_a_tracker_gets_no_password(tmp_path, address, sent):
    tracker = MagicMock(__name__="wandb")
    config = RunConfig("CartPole-v1", DQN(), Apex(), server=ServerConfig(address))
    with RunDirectory.create(tmp_path / "run", config.to_json()) as run:
        Sinks(config, None, tracker).attach(run)
    assert tracker.init.call_args.kwargs["config"]["server"]["address"] == sent
