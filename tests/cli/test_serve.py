"""`headrace serve` as a process: output, errors, shutdown, and data recovered after a kill."""

import os
import re
import resource
import signal
import socket
import time

import numpy as np
import pytest

from headrace._native import ChunkWriter, Client, OptimizerOptions, Server, ShardedModel, Signature
from headrace.errors import HeadraceError
from headrace.replay.remote import read_token

SIGNATURE = Signature((4,), "float32")


def chunk(steps=10):
    writer = ChunkWriter(SIGNATURE, chunk_steps=steps)
    writer.start(np.zeros(4, np.float32))
    for step in range(steps):
        writer.append(1, float(step), np.full(4, step, np.float32), False, step == steps - 1)
    [made] = writer.take()
    return made


def test_it_prints_its_addresses_and_memory(serve, tmp_path):
    socket_path = tmp_path / "socket"
    server = serve("--memory", "100MB", listen=["tcp://127.0.0.1:0", f"unix:{socket_path}"])
    port = int(server.address.removeprefix("tcp://127.0.0.1:"))
    assert port > 0
    assert server.addresses[1] == f"unix:{socket_path}"
    for address in server.addresses:
        client = Client(address)
        assert client.stats()["memory_limit_bytes"] == 100_000_000
        client.close()
    code, out, err = server.stop()
    assert (code, err) == (0, "")
    assert out == "memory    100 MB\ndata      kept only in memory; --data DIR keeps it on disk\nstopping\n"
    assert not socket_path.exists()


def test_the_number_of_connections_is_a_setting(serve):
    server = serve("--max-connections", "1")
    first = Client(server.address)
    refusal = "the server has 1 connections, which is its limit"
    for timeout_seconds in (0.1, 1.0, 10.0, 100.0):  # a refused client tries again for that long
        with pytest.raises(HeadraceError) as caught:
            Client(server.address, timeout_seconds=timeout_seconds)
        if refusal in str(caught.value):
            break  # the machine was not too busy to refuse in time
    assert refusal in str(caught.value)
    first.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_despite_open_connections(serve, number):
    server = serve("--quiet")
    client = Client(server.address)
    client.open_table("run/replay", SIGNATURE, fresh=True, capacity=100)
    assert server.stop(number) == (0, "", "")
    with pytest.raises(HeadraceError):
        client.stats()


def test_it_may_have_as_many_connections_as_the_system_allows(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024) - 1, hard))
    try:
        server = serve("--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    assert server.stop() == (0, "", "")


def test_the_default_memory_is_a_share_of_the_machines(serve):
    server = serve()
    assert "80% of this machine's" in server.line()
    assert server.stop()[0] == 0


@pytest.mark.parametrize(
    ("damage", "said"), [(lambda file: file.write_text("x"), "damaged"), (lambda file: file.unlink(), "missing")]
)
def test_lost_claims_give_a_warning(serve, tmp_path, damage, said):
    data = tmp_path / "data"
    server = serve("--quiet", "--data", str(data))
    client = Client(server.address)
    client.open_table("run/replay", SIGNATURE, fresh=True, capacity=100)
    client.claim("run/learner", 1, keep_seconds=60.0)
    client.close()
    assert server.stop() == (0, "", "")
    damage(data / "claims")
    again = serve("--quiet", "--data", str(data))
    code, _, err = again.stop()
    assert code == 0
    assert err.startswith(f"headrace: warning: {data}/claims is {said}")
    assert err.count("\n") == 1


def fill_and_kill(serve, data):
    """A server on `data` that is killed after 70 acknowledged transitions."""
    server = serve("--data", str(data))
    client = Client(server.address)
    client.open_table("run/replay", SIGNATURE, fresh=True, capacity=1_000)
    for _ in range(7):
        client.insert("run/replay", chunk(10))
    assert server.stop(signal.SIGKILL)[0] == -signal.SIGKILL


def test_acknowledged_transitions_survive_kill_9(serve, tmp_path):
    data = tmp_path / "data"
    fill_and_kill(serve, data)
    again = serve("--data", str(data))
    client = Client(again.address)
    assert client.stats()["tables"]["run/replay"]["size"] == 70
    code, out, _ = again.stop()
    assert code == 0
    assert f"data      {data}, with 1 table of 70 transitions\n" in out
    assert "stopping: writing the remaining data to disk\n" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_chunks_that_are_held_when_it_ends_are_stored_by_its_successor(serve, tmp_path, number):
    options, listen = ("--quiet", "--data", str(tmp_path / "data")), [f"unix:{tmp_path}/socket"]
    server = serve(*options, listen=listen)
    client = Client(server.address, reconnect_seconds=60.0)
    client.open_table("run/replay", SIGNATURE, fresh=True, capacity=1_000)
    client.insert("run/replay", chunk(10))
    client.set_state("run/replay", "paused")
    for _ in range(3):
        client.post_chunks("run/replay", chunk(10))
    server.stop(number)
    again = serve(*options, listen=listen)
    client.settle()
    assert client.stats()["tables"]["run/replay"]["size"] == 40
    assert again.stop()[0] == 0


def test_shards_survive_kill_9(serve, tmp_path):
    data = tmp_path / "data"
    server = serve("--data", str(data), "--shard-save-period", "0.01")
    model = ShardedModel([server.address], "run/model", 3, shards=2)
    model.open(OptimizerOptions("sgd", learning_rate=1.0), np.zeros(3, np.float32), fresh=True)
    model.fetch_into(np.empty(3, np.float32))
    model.push(np.full(3, 2, np.float32))
    client = Client(server.address)
    while {shard["saved_version"] for shard in client.stats()["shards"].values()} != {1}:
        time.sleep(0.01)
    assert server.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    again = serve("--data", str(data))
    model = ShardedModel([again.address], "run/model", 3, shards=2)
    assert model.open(OptimizerOptions("sgd", learning_rate=1.0), fresh=False) == 1
    values = np.empty(3, np.float32)
    model.fetch_into(values)
    assert values.tolist() == [-2, -2, -2]
    code, out, err = again.stop()
    assert (code, err) == (0, "")
    assert f"data      {data}, with 2 shards\n" in out


def test_a_shard_file_that_cannot_be_used_is_a_warning(serve, tmp_path):
    (tmp_path / "shard-1.slots").write_bytes(b"\xff" * 50_000)
    code, out, err = serve("--data", str(tmp_path)).stop()
    assert code == 0
    assert "with nothing yet\n" in out
    assert err.startswith(f"headrace: warning: {tmp_path}/shard-1.slots can't be used")
    assert err.count("\n") == 1


def test_it_reports_what_is_damaged_and_lost(serve, tmp_path):
    data = tmp_path / "data"
    fill_and_kill(serve, data)
    arena = data / "table-1.arena"
    image = bytearray(arena.read_bytes())
    image[image.index(b"HRC2", image.index(b"HRC2") + 4) + 70] ^= 1  # in the second chunk
    arena.write_bytes(image)
    again = serve("--data", str(data))
    table = Client(again.address).stats()["tables"]["run/replay"]
    assert (table["size"], table["recovered"], table["lost"]) == (60, 60, 10)
    code, out, err = again.stop()
    assert code == 0
    assert f"data      {data}, with 1 table of 60 transitions\n" in out
    assert err.startswith('headrace: warning: table "run/replay": 10 transitions')
    assert err.count("\n") == 1
    assert str(arena) in err


def test_an_arena_that_is_cut_short_ends_it_with_one_line(serve, tmp_path):
    data = tmp_path / "data"
    server = serve("--quiet", "--data", str(data))
    client = Client(server.address)
    client.open_table("run/replay", SIGNATURE, fresh=True, capacity=1_000)
    arena = data / "table-1.arena"
    os.truncate(arena, 8192)
    with pytest.raises(HeadraceError):
        client.insert("run/replay", chunk(10))
    _, err = server.process.communicate(timeout=120)
    assert server.process.returncode == 2
    assert err.decode().startswith(f"headrace: error: arena file {arena} has a page that can't be read or written")
    assert err.count(b"\n") == 1


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_it_renames_an_arena_without_settings_and_warns(serve, tmp_path, options):
    data = tmp_path / "data"
    data.mkdir()
    arena = data / "table-7.arena"
    arena.write_bytes(b"mine")
    code, _, err = serve("--data", str(data), *options).stop()
    assert code == 0
    aside = data / "table-7.arena.orphan"
    assert err.startswith(f"headrace: warning: {arena} has no settings")
    assert err.count("\n") == 1
    assert str(aside) in err
    assert set(data.iterdir()) == {aside, data / "claims"}
    assert aside.read_bytes() == b"mine"
    assert serve("--data", str(data), *options).stop()[2] == ""


def test_a_table_whose_settings_are_damaged_keeps_its_experience(serve, headrace_command, tmp_path):
    data = tmp_path / "data"
    server = serve("--data", str(data))
    Client(server.address).open_table("run/replay", SIGNATURE, fresh=True, capacity=1_000)
    assert server.stop()[0] == 0
    settings, arena = data / "table-1.settings", data / "table-1.arena"
    experience = arena.read_bytes()
    settings.write_bytes(b"damaged")
    run = headrace_command("serve", "--listen", "tcp://127.0.0.1:0", "--data", data)
    assert run.returncode == 2
    assert str(settings) in run.stderr
    assert run.stderr.count("\n") == 1
    settings.rename(tmp_path / "moved")  # as it says
    assert serve("--data", str(data)).stop()[0] == 0
    assert (data / "table-1.arena.orphan").read_bytes() == experience


def test_a_token_is_required_over_tcp(serve, token_file, tmp_path):
    server = serve("--quiet", "--token-file", str(token_file), listen=["tcp://127.0.0.1:0", f"unix:{tmp_path / 's'}"])
    token = read_token(token_file)
    for address, proof in ((server.address, token), (server.addresses[1], None)):
        client = Client(address, token=proof)
        assert client.stats()["tables"] == {}
        client.close()
    for wrong in (None, b"x" * 32):
        with pytest.raises(HeadraceError, match="token"):
            Client(server.address, token=wrong)
    assert server.stop() == (0, "", "")


def test_a_token_file_readable_by_others_gives_a_warning(serve, token_file):
    token_file.chmod(0o644)
    server = serve("--quiet", "--token-file", str(token_file))
    code, _, err = server.stop()
    assert code == 0
    assert err == (
        f"headrace: warning: {token_file} has mode 644, so other users of this machine may read the token; "
        f"chmod 600 {token_file}\n"
    )


@pytest.fixture
def taken():
    """A port of this machine that is in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--listen tcp://127.0.0.1:{port}", r"127\.0\.0\.1:{port}.*in use"),
        ("--listen tcp://no-such-host.invalid:7447", r"no-such-host\.invalid"),
        ("--listen tcp://127.0.0.1", r"tcp://127\.0\.0\.1"),
        ("--listen tcp://127.0.0.1:99999", r"99999"),
        ("--listen ftp://127.0.0.1:1", r"ftp://127\.0\.0\.1:1"),
        (
            "--listen redis://:pass@127.0.0.1:1",
            r"listen is redis://127\.0\.0\.1:1; it must be a tcp://, unix: or dpdk: address",
        ),
        ("--listen rediss://:pass@h", r"listen is rediss://h; it must be a tcp://, unix: or dpdk: address"),
        ("--listen tcp://0.0.0.0:0", r"token.*--token-file"),
        ("--listen unix:/no/such/folder/socket", r"/no/such/folder/socket"),
        ("--token-file {folder}/none", r"token_file is {folder}/none; it must be a file that can be read"),
        ("--token-file {folder}/short", r"token_file is {folder}/short; it must be a file with a secret of 16 to 4096"),
        ("--data {folder}/short", r"{folder}/short"),
        ("--data {folder}/used", r"{folder}/used"),
        ("--memory 8X", r"8X is not a size"),
        ("--memory 0", r"memory is 0; it must be above 0 bytes"),
        ("--memory 8388608TiB", r"memory is 9223372036854775808; it must be below 8 EiB"),
        ("--max-connections 0", r"max_connections is 0; it must be from 1 to 1000000"),
        ("--max-connections 2000000", r"max_connections is 2000000; it must be"),
        ("--shard-save-period 0", r"shard_save_period is 0\.0; it must be above 0, at most a day"),
        ("--shard-save-period 2", r"shard_save_period is 2\.0; it must be left out without --data"),
        ("--shard-save-period 2d", r"shard_save_period is 172800\.0; it must be"),
        ("--shard-save-period -1", r"-1"),
        ("--shard-save-period soon", r"soon is not a duration"),
        ("--port 7447", r"--port is not an option of headrace serve"),
        ("7447", r"Unrecognized options: 7447"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(headrace_command, tmp_path, taken, words, complaint):
    (tmp_path / "short").write_text("secret")
    (tmp_path / "short").chmod(0o600)
    other = Server(data=str(tmp_path / "used"))
    try:
        run = headrace_command("serve", *words.format(port=taken, folder=tmp_path).split())
    finally:
        other.close()
    assert run.returncode == 2
    assert run.stderr.startswith("headrace: error: ")
    assert run.stderr.count("\n") == 1
    assert re.search(complaint.format(port=taken, folder=re.escape(str(tmp_path))), run.stderr), run.stderr
