"""`headrace serve --listen dpdk:...`: the executable that it starts, and runs of that executable where it is built."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace._native import Client
from headrace.cli.main import main
from headrace.cli.serve import run
from headrace.errors import ConfigError
from headrace.servers import polling
from headrace.servers.polling import find_polling_server

MEMIF = "dpdk:memif,socket=/run/headrace,ip=10.9.0.1/24"
CLIENT_LIBRARY = Path(sys.prefix) / "lib/libheadrace-bypass-client.so"
KINDS = pytest.mark.parametrize("kind", ["memif", "vhost"])


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Makes a shell script the polling server."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(polling, "_PROGRAM", "fake-bypass")

    def make(text):
        path = tmp_path / "fake-bypass"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_missing_executable_is_one_line_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(polling, "_PROGRAM", "headrace-no-such-program")
    with pytest.raises(ConfigError, match=r"listen is dpdk:memif\S*; headrace-no-such-program is not.*make bypass"):
        run(["--listen", MEMIF])


def test_a_missing_library_is_named(program):
    program("echo 'error while loading shared libraries: librte_eal.so.23' >&2; exit 127")
    with pytest.raises(ConfigError, match=r"listen is dpdk:memif.*librte_eal\.so\.23.*make bypass"):
        run(["--listen", MEMIF])


def test_the_executable_gets_every_setting(program, monkeypatch, token_file):
    path = program("exit 0")
    started = []

    def execute(name, words):
        started.append((name, words))
        raise SystemExit

    monkeypatch.setattr(os, "execv", execute)
    sizes = ["--memory", "1GB", "--shard-save-period", "2s"]
    files = ["--data", "experience", "--token-file", str(token_file)]
    with pytest.raises(SystemExit):
        run(["--listen", MEMIF, "--listen", "unix:@x", "--poll", "always", *sizes, *files])
    words = ["--listen", MEMIF, "--listen", "unix:@x", "--memory", "1000000000", "--shard-save-period", "2.0"]
    words += ["--poll", "always", "--max-connections", "4096", "--data", "experience", "--token-file", str(token_file)]
    assert started == [(path, [path, *words])]


def test_poll_requires_a_dpdk_address():
    with pytest.raises(ConfigError, match=r"poll is always.*dpdk:"):
        run(["--poll", "always", "--listen", "unix:@x"])


@pytest.mark.parametrize("kind", ["af_packet,interface=eth1", "pci,device=0000:03:00.0"])
def test_a_client_reaches_a_network_interface_through_the_kernel(kind, capsys):
    assert main(["stats", f"dpdk:{kind},ip=10.9.0.1/24"]) == 2
    said = capsys.readouterr().err
    assert "tcp://IP:PORT" in said
    assert said.count("\n") == 1


@pytest.fixture
def built():
    """Skips a test where the polling server or its clients' library is not built."""
    try:
        find_polling_server()
    except ConfigError as error:
        pytest.skip(str(error))
    if not CLIENT_LIBRARY.exists():
        pytest.skip(f"needs {CLIENT_LIBRARY} (make bypass)")


class Program:
    """A Python program in a separate process, since a process has one TCP stack."""

    def __init__(self, text, *arguments):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", text, *arguments], text=True, **pipes)

    def line(self):
        """Its next line."""
        return self.process.stdout.readline().rstrip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Its exit code and what it still wrote."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture
def program_of():
    """Starts programs; those that the test leaves are killed."""
    started = []

    def start(text, *arguments):
        started.append(Program(text, *map(str, arguments)))
        return started[-1]

    yield start
    for program in started:
        program.process.kill()
        program.process.communicate()


ROUND_TRIPS = """
import sys
import numpy as np
from headrace._native import BatchStream, ChunkWriter, Client, Signature
address, token = sys.argv[1], sys.argv[2].encode() or None
client = Client(address, token=token, timeout_seconds=60)
signature = Signature((4,), "float32")
client.open_table("replay", signature, fresh=True, capacity=1000)
writer = ChunkWriter(signature, chunk_steps=10)
for episode in range(20):
    writer.start(np.zeros(4, np.float32))
    for step in range(10):
        writer.append(1, float(step), np.full(4, step, np.float32), False, step == 9)
    for chunk in writer.take():
        client.insert("replay", chunk)
blob = bytes(range(256)) * 40_000
version = client.publish("policy", blob)
assert client.fetch("policy") == (version, blob)
batches = BatchStream(address, "replay", 64, 0.4, token=token, timeout_seconds=60)
assert not batches.shared
for _ in range(20):
    observation = batches.next(60.0)[0]
    assert (observation == observation[:, :1]).all() and 0 <= observation.min() <= observation.max() < 10
batches.close()
print(client.stats()["tables"]["replay"]["size"])
client.close()
"""


@KINDS
def test_a_process_of_this_machine_bypasses_the_kernel(built, serve, tmp_path, program_of, kind):
    socket = tmp_path / "port"
    address = f"dpdk:{kind},socket={socket},ip=10.9.0.1/24"
    server = serve(listen=[address, f"unix:{tmp_path / 'kernel'}"])
    assert server.address == f"{address},port=7447,mtu=9000,links=8"
    assert program_of(ROUND_TRIPS, address, "").end() == (0, "200\n", "")
    client = Client(server.addresses[1])
    stats = client.stats()
    client.close()
    assert stats["tables"]["replay"]["size"] == 200
    assert server.stop() == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_clients_of_both_kinds_at_once_and_with_a_token(built, serve, tmp_path, program_of, token_file):
    addresses = [f"dpdk:memif,socket={tmp_path / 'memif'},ip=10.9.0.1/24"]
    addresses += [f"dpdk:vhost,socket={tmp_path / 'vhost'},ip=10.9.1.1/24,port=80,mtu=1500,links=2"]
    server = serve("--token-file", str(token_file), listen=addresses)
    token = token_file.read_text().strip()
    programs = [ROUND_TRIPS.replace('"replay"', f'"replay-{i}"').replace('"policy"', f'"policy-{i}"') for i in range(4)]
    clients = [program_of(program, addresses[i % 2], token) for i, program in enumerate(programs)]
    for client in clients:
        assert client.end() == (0, "200\n", "")
    assert server.stop() == (0, "", "")


def test_commands_take_the_address_of_the_server(built, serve, tmp_path, headrace_command):
    address = f"dpdk:memif,socket={tmp_path / 'port'},ip=10.9.0.1/24"
    server = serve(listen=[address])
    done = headrace_command("stats", address, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["tables"] == {}
    assert "; there is no run\n" in headrace_command("drop", address, "default").stderr
    elsewhere = headrace_command("stats", address + ",port=80")
    assert elsewhere.returncode == 2
    assert f"'{server.address}', which is required" in elsewhere.stderr
    assert server.stop() == (0, "", "")
    nowhere = headrace_command("stats", address)
    assert nowhere.returncode == 2
    assert "no server answers" in nowhere.stderr
    assert nowhere.stderr.count("\n") == 1


HOLDER = """
import sys
from headrace._native import Client
client = Client(sys.argv[1], timeout_seconds=60)
client.claim("learner", int(sys.argv[2]))
print("claimed", flush=True)
sys.stdin.readline()
"""


@KINDS
def test_a_link_is_free_once_its_client_is_gone(built, serve, tmp_path, program_of, headrace_command, kind):
    address = f"dpdk:{kind},socket={tmp_path / 'port'},ip=10.9.0.1/24,links=1"
    server = serve(listen=[address])
    for owner in (1, 2):  # the second claims what the first one had
        holder = program_of(HOLDER, address, owner)
        assert holder.line() == "claimed"
        refused = headrace_command("stats", address)
        assert refused.returncode == 2
        assert "all 1 links" in refused.stderr
        assert refused.stderr.count("\n") == 1
        holder.kill()
        assert headrace_command("stats", address).returncode == 0
    assert server.stop() == (0, "", "")
    assert list(tmp_path.iterdir()) == []


PUBLISHER = """
import sys
from headrace._native import Client
client = Client(sys.argv[1], timeout_seconds=60, reconnect_seconds=60)
blob = bytes(10_000_000)
client.publish("policy", blob)
print("published", flush=True)
while client.reconnections == 0:
    client.publish("policy", blob)
print("published again")
"""


@KINDS
def test_clients_and_servers_that_are_killed_during_a_transfer(built, serve, tmp_path, program_of, kind):
    address = f"dpdk:{kind},socket={tmp_path / 'port'},ip=10.9.0.1/24"
    killed = serve(listen=[address])
    for _ in range(3):
        client = program_of(PUBLISHER, address)
        assert client.line() == "published"
        client.kill()
    client = program_of(PUBLISHER, address)
    assert client.line() == "published"
    killed.process.kill()
    killed.process.wait()
    server = serve(listen=[address])
    assert client.end() == (0, "published again\n", "")
    assert server.stop() == (0, "", "")
    assert list(tmp_path.iterdir()) == []


HELD = """
import sys
import numpy as np
from headrace._native import ChunkWriter, Client, Signature
client = Client(sys.argv[1], timeout_seconds=60, reconnect_seconds=60)
signature = Signature((4,), "float32")
client.open_table("replay", signature, fresh=True, capacity=1000)
client.set_state("replay", "paused")
writer = ChunkWriter(signature, chunk_steps=10)
for episode in range(3):
    writer.start(np.zeros(4, np.float32))
    for step in range(10):
        writer.append(1, float(step), np.full(4, step, np.float32), False, step == 9)
    client.post_chunks("replay", *writer.take())
print("posted", flush=True)
client.settle()
print(client.stats()["tables"]["replay"]["size"])
"""


@KINDS
def test_chunks_that_are_held_when_it_ends_are_stored_by_its_successor(built, serve, tmp_path, program_of, kind):
    options = ("--data", str(tmp_path / "data"))
    listen = [f"dpdk:{kind},socket={tmp_path / 'port'},ip=10.9.0.1/24"]
    server = serve(*options, listen=listen)
    client = program_of(HELD, listen[0])
    assert client.line() == "posted"
    assert server.stop()[0] == 0
    again = serve(*options, listen=listen)
    assert client.end() == (0, "30\n", "")
    assert again.stop()[0] == 0


@pytest.mark.slow
def test_a_run_trains_through_the_polling_server(built, serve, tmp_path, headrace_command):
    address = f"dpdk:vhost,socket={tmp_path / 'port'},ip=10.9.0.1/24"  # memif: see docs/bypass.md, limits
    server = serve(listen=[address])
    run_path = tmp_path / "run"
    done = headrace_command(
        *("train", "CartPole-v1", "--server", address, "--topology", "apex", "--actors", 2),
        *("--steps", 4000, "--learning-starts", 500, "--final-evaluation-episodes", 2, "--run-dir", run_path),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((run_path / "summary.json").read_text())
    assert summary["environment_steps"] >= 4000
    assert summary["learner_steps"] > 0
    assert server.stop() == (0, "", "")


def test_a_socket_that_a_killed_server_left_is_replaced(built, serve, tmp_path, headrace_command):
    address = f"dpdk:memif,socket={tmp_path / 'port'},ip=10.9.0.1/24"
    killed = serve(listen=[address])
    killed.process.kill()
    killed.process.wait()
    assert (tmp_path / "port").exists()
    server = serve(listen=[address])
    again = headrace_command("serve", "--listen", address)
    assert again.returncode == 2
    assert "another server listens there" in again.stderr
    assert again.stderr.count("\n") == 1
    assert server.stop() == (0, "", "")


@pytest.fixture
def veth():
    """A pair of interfaces: ours, and one with 10.9.1.2 in a network namespace; yields both names and the namespace."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("ethtool") is None:
        pytest.skip("needs root, ip and ethtool to connect a network namespace")
    tag = secrets.token_hex(3)
    ours, theirs, space = f"hrb{tag}0", f"hrb{tag}1", f"headrace-{tag}"

    def execute(words):
        subprocess.run(words.split(), check=True, capture_output=True)

    execute(f"ip netns add {space}")
    try:
        execute(f"ip link add {ours} type veth peer name {theirs} netns {space}")
        execute(f"ip link set {ours} up")
        execute(f"ip -n {space} addr add 10.9.1.2/24 dev {theirs}")
        execute(f"ip -n {space} link set {theirs} up")
        execute(f"ip netns exec {space} ethtool -K {theirs} tx off gso off tso off")
        yield ours, space
    finally:
        execute(f"ip netns del {space}")  # and its end of the pair, which ends ours


def test_an_unmodified_client_reaches_a_network_interface(built, serve, veth, token_file):
    ours, space = veth
    server = serve("--token-file", str(token_file), listen=[f"dpdk:af_packet,interface={ours},ip=10.9.1.1/24"])
    command = [sys.executable, "-c", ROUND_TRIPS, "tcp://10.9.1.1:7447", token_file.read_text().strip()]
    done = subprocess.run(
        ["ip", "netns", "exec", space, *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr
    assert server.stop() == (0, "", "")


def test_an_interface_without_a_token_is_refused(built, headrace_command):
    done = headrace_command("serve", "--listen", "dpdk:af_packet,interface=lo,ip=10.9.1.1/24")
    assert done.returncode == 2
    assert "--token-file" in done.stderr
    assert done.stderr.count("\n") == 1
