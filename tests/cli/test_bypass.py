"""`headrace serve --listen dpdk:...`: the executable that it starts, and runs of that executable where it is built."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace._native import Client
from headrace.cli.serve import run
from headrace.errors import ConfigError
from headrace.servers import polling
from headrace.servers.polling import find_polling_server

MEMIF = "dpdk:memif,socket=/run/headrace,ip=10.9.0.1/24"
CLIENT_PROGRAM = Path(__file__).parents[2] / "build/bypass/native/bypass/headrace-bypass-client"


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
    with pytest.raises(ConfigError, match=r"listen is dpdk:memif.*headrace-no-such-program.*make bypass"):
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


@pytest.fixture
def built():
    """Skips a test where the polling server or the client of its tests is not built."""
    try:
        find_polling_server()
    except ConfigError as error:
        pytest.skip(str(error))
    if not CLIENT_PROGRAM.exists():
        pytest.skip(f"needs {CLIENT_PROGRAM} (make test-bypass)")


@pytest.mark.parametrize("kind", ["memif", "vhost"])
def test_a_process_of_this_machine_bypasses_the_kernel(built, serve, tmp_path, kind):
    socket = tmp_path / "port"
    server = serve(listen=[f"dpdk:{kind},socket={socket},ip=10.9.0.1/24", f"unix:{tmp_path / 'kernel'}"])
    assert server.address == f"dpdk:{kind},socket={socket},ip=10.9.0.1/24,port=7447,mtu=9000"
    own = f"dpdk:{kind},socket={socket},ip=10.9.0.2/24"
    done = subprocess.run([CLIENT_PROGRAM, own, "10.9.0.1"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "inserted, sampled, published and fetched\n"), done.stderr
    client = Client(server.addresses[1])
    stats = client.stats()
    client.close()
    assert stats["tables"]["bypass/replay"]["size"] == 400
    assert server.stop() == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_a_killed_server_left_is_replaced(built, serve, tmp_path):
    address = f"dpdk:memif,socket={tmp_path / 'port'},ip=10.9.0.1/24"
    killed = serve(listen=[address])
    killed.process.kill()
    killed.process.wait()
    assert (tmp_path / "port").exists()
    server = serve(listen=[address])
    again = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "--listen", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
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


ROUND_TRIPS = """
import sys
import numpy as np
from headrace._native import ChunkWriter, Client, Signature
client = Client(sys.argv[1], token=sys.argv[2].encode(), timeout_seconds=60)
signature = Signature((4,), "float32")
client.open_table("replay", signature, fresh=True, capacity=1000)
writer = ChunkWriter(signature, chunk_steps=10)
for episode in range(20):
    writer.start(np.zeros(4, np.float32))
    for step in range(10):
        writer.append(1, float(step), np.full(4, step, np.float32), False, step == 9)
    for chunk in writer.take():
        client.insert("replay", chunk)
blob = bytes(range(256)) * 12_000
version = client.publish("policy", blob)
assert client.fetch("policy") == (version, blob)
print(client.stats()["tables"]["replay"]["size"])
"""


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
