"""`headrace stats` and `headrace drop` against a server in a separate process."""

import contextlib
import json
import socket
import struct
import threading

import pytest

from headrace._native import Client, Signature
from headrace.cli.main import main
from headrace.replay.remote import read_token
from headrace.servers import standalone

SIGNATURE = Signature((4,), "float32")


@pytest.fixture
def server(serve, token_file):
    """A server with two runs on it, "lander" and "lander-2"."""
    started = serve("--quiet", "--token-file", str(token_file))
    client = Client(started.address, token=read_token(token_file))
    for run in ("lander", "lander-2"):
        client.open_table(f"{run}/replay", SIGNATURE, fresh=True, capacity=1_000)
        client.publish(f"{run}/policy", b"x" * 1_500)
        client.put(f"{run}/reports", b"hello")
    client.close()
    return started


@pytest.fixture
def look(server, token_file):
    client = Client(server.address, token=read_token(token_file))
    yield client
    client.close()


def test_json_is_the_servers_statistics(server, token_file, capsys):
    assert main(["stats", server.address, "--token-file", str(token_file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {name: table["capacity"] for name, table in record["tables"].items()} == {
        "lander/replay": 1_000,
        "lander-2/replay": 1_000,
    }
    assert record["parameters"]["lander/policy"] == {"version": 1, "bytes": 1_500}
    assert len(record["connections"]) == 1


def test_a_pipe_gets_the_view_once(server, token_file, capsys):
    assert main(["stats", server.address, "--token-file", str(token_file), "--period", "0.05s"]) == 0
    out = capsys.readouterr().out
    for shown in (server.address, "lander/replay", "0 / 1,000", "lander-2/policy", "1.5 kB", "tcp 127.0.0.1:", "open"):
        assert shown in out, shown


def test_drop_removes_a_run_and_no_other(server, token_file, look, capsys):
    words = ["drop", server.address, "lander", "--token-file", str(token_file)]
    assert main(words) == 0
    assert capsys.readouterr().out == ("dropped lander: 0 transitions (0 B), 1.5 kB of parameters, and its messages\n")
    assert list(look.stats()["tables"]) == ["lander-2/replay"]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        f"headrace: error: run lander is not on {server.address}; the runs there are lander-2\n"
    )
    assert look.drain("lander/reports") == []
    assert look.drain("lander-2/reports") == [b"hello"]


def test_a_run_in_training_is_not_dropped(server, token_file, look, capsys, monkeypatch):
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 0.2)
    look.claim("lander/learner", 7)
    assert main(["drop", server.address, "lander", "--token-file", str(token_file)]) == 2
    err = capsys.readouterr().err
    assert f"run is lander; it must be one without a learner on {server.address}; " in err
    assert "another owner holds it" in err
    assert len(look.stats()["tables"]) == 2


def test_a_run_whose_learner_has_just_ended_is_dropped(server, token_file, look, capsys):
    learner = Client(server.address, token=read_token(token_file))
    learner.claim("lander/learner", 7)
    ended = threading.Timer(0.3, learner.close)
    ended.start()
    assert main(["drop", server.address, "lander", "--token-file", str(token_file)]) == 0
    ended.join()
    assert "dropped lander" in capsys.readouterr().out


def test_json_has_no_period(capsys):
    assert main(["stats", "tcp://127.0.0.1:9", "--json", "--period", "5"]) == 2
    assert "period is 5.0; it must be left out with --json" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a b", "a/b", "", "x" * 65, "ü"])
def test_an_invalid_run_name_is_not_dropped(name, capsys):
    assert main(["drop", "tcp://127.0.0.1:9", name]) == 2
    err = capsys.readouterr().err
    assert f"run is {name or 'empty'}; it must be 1 to 64 letters" in err
    assert err.count("\n") == 1


class Impostor:
    """Listens, and sends the given answer to every request."""

    def __init__(self, answer):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                with contextlib.suppress(OSError), connection:
                    while (request := connection.recv(1 << 16)) and (answer := self._answer(request)):
                        connection.sendall(answer)

    def close(self):
        self._listener.close()


@pytest.fixture
def impostor():
    made = []

    def make(answer):
        made.append(Impostor(answer))
        return made[-1].address

    yield make
    for each in made:
        each.close()


def reply(request, body, status=0):
    """A frame that answers this one."""
    return (
        request[:3] + bytes([request[3] | 0x80, status, 0, 0, 0]) + request[8:16] + struct.pack("<Q", len(body)) + body
    )


@pytest.mark.parametrize("answer", [bytes(range(255, 0, -1)), b"HTTP/1.1 400 Bad Request\r\n\r\n<html>", b""])
@pytest.mark.parametrize("words", [["stats"], ["drop"], ["actor"], ["train"], ["learner"]], ids=lambda words: words[0])
def test_a_listener_that_is_not_a_server(monkeypatch, tmp_path, impostor, words, answer, capsys):
    monkeypatch.chdir(tmp_path)
    for module in ("headrace.cli.visit", "headrace.servers.standalone"):
        monkeypatch.setattr(f"{module}._CONNECT_SECONDS", 0.2)
    monkeypatch.setattr("headrace.settings.server.RECONNECT_SECONDS", 0.2)
    address = impostor(lambda request: answer)
    given = {"stats": [address], "drop": [address, "run"], "actor": ["--server", address]}
    assert main([*words, *given.get(words[0], ["CartPole-v1", "--server", address])]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace: error: ")
    assert address in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["stats"], ["drop", "run"]], ids=lambda words: words[0])
def test_another_protocol_is_said_to_be_no_headrace_server(impostor, words, capsys):
    address = impostor(lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n<html>")
    assert main([words[0], address, *words[1:]]) == 2
    assert capsys.readouterr().err == (
        f"headrace: error: address is {address}, where something else than a Headrace server answers; "
        "it must be that of one\n"
    )


@pytest.mark.parametrize("command", ["stats", "drop"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\xff\xfe", 0),
        (b"{", 0),
        (b"[1]", 0),
        (b"{}", 0),
        (b"[" * 100_000, 0),
        (b"\xff\n\x1b[31mred\n", 2),
        (b"x", 77),
    ],
)
def test_a_listener_that_speaks_the_protocol_but_sends_invalid_replies(impostor, command, body, status, capsys):
    hello, stats = 10, 9

    def answer(request):
        if request[3] == hello:
            return reply(request, bytes(8 + 1 + 32))
        return reply(request, body, status) if request[3] == stats else reply(request, b"")

    address = impostor(answer)
    assert main([command, address, *(["run"] if command == "drop" else [])]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace: error: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err


@pytest.mark.parametrize("command", [["stats"], ["drop"]])
@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("redis://127.0.0.1:6379", "it must be a Headrace server's, tcp://, unix: or dpdk: (use redis-cli for Redis)"),
        ("127.0.0.1:7447", "127.0.0.1:7447"),
        ("unix:/no/such/socket", "/no/such/socket"),
    ],
)
def test_no_server_at_the_address(monkeypatch, command, address, complaint, capsys):
    monkeypatch.setattr("headrace.cli.visit._CONNECT_SECONDS", 0.2)
    assert main([*command, address, *(["run"] if command == ["drop"] else [])]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


def test_without_the_token(server, tmp_path, capsys):
    assert main(["stats", server.address]) == 2
    assert "token" in capsys.readouterr().err
    other = tmp_path / "other"
    other.write_text("another secret, long enough")
    assert main(["stats", server.address, "--token-file", str(other)]) == 2
    err = capsys.readouterr().err
    assert "token" in err
    assert "another secret" not in err


@pytest.mark.parametrize("period", ["0", "2h"])
def test_an_impossible_period_is_refused(period, capsys):
    assert main(["stats", "unix:@none", "--period", period]) == 2
    assert "it must be above 0, at most an hour" in capsys.readouterr().err
