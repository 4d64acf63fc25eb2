"""No command, and no process that it starts, contacts a host that the user did not name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 12
"""Training time of the runs: ONNX Runtime's telemetry looks its host up 9 s after it was imported."""
COMMAND_SECONDS = 240
SUPPRESSORS = ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS")
"""Variables that silence ONNX Runtime's telemetry without Headrace's doing."""


class Watch:
    """Runs processes whose look-ups and connections beyond this machine are recorded, and refused."""

    def __init__(self, folder: Path) -> None:
        self._library = folder / "contacts.so"
        self._record = folder / "contacts"
        self.home = folder / "home"
        self.home.mkdir()
        source = Path(__file__).with_name("contacts.c")
        subprocess.run(["c++", "-x", "c", "-shared", "-fPIC", source, "-o", self._library, "-ldl"], check=True)

    @property
    def contacts(self) -> list[str]:
        """What was recorded: a call and the host or address that it was about."""
        return self._record.read_text().splitlines() if self._record.exists() else []

    def start(self, *words: str, **options: object) -> subprocess.Popen[str]:
        own = {
            "HEADRACE_CONTACTS": str(self._record),
            "HOME": str(self.home),
            "LD_PRELOAD": str(self._library),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
        }
        inherited = {name: value for name, value in os.environ.items() if name not in SUPPRESSORS}
        return subprocess.Popen(
            [sys.executable, *words], env=inherited | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def headrace(self, *words: str) -> subprocess.Popen[str]:
        return self.start("-m", "headrace", *words)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 0, output


def test_the_watch_sees_what_a_process_contacts(watch):
    code = (
        "import contextlib, socket\n"
        "with contextlib.suppress(OSError):\n"
        "    socket.getaddrinfo('host.invalid', 80)\n"
        "with contextlib.suppress(OSError):\n"
        "    socket.create_connection(('192.0.2.1', 9))\n"
    )
    finish(watch.start("-c", code))
    assert watch.contacts[0] == "getaddrinfo host.invalid"
    assert watch.contacts[-1].endswith(" 192.0.2.1")


@pytest.mark.slow
def test_no_command_contacts_a_host_that_was_not_named(watch, tmp_path):
    run, address, limit = tmp_path / "run", f"unix:{tmp_path}/server", ("--time-limit", f"{SECONDS}s")
    settings = ("--actors", "1", "--final-evaluation-episodes", "1", "--quiet", *limit)
    server = watch.headrace("serve", "--listen", address, "--quiet")
    try:
        assert server.stdout is not None
        server.stdout.readline()  # it listens
        commands = [
            watch.headrace("train", "CartPole-v1", "--run-dir", str(run), *settings),
            watch.headrace(
                "learner", "CartPole-v1", "--run-dir", str(tmp_path / "other"), "--server", address, *settings
            ),
            watch.headrace("actor", "--server", address, "--log-dir", str(tmp_path / "logs")),
        ]
        for command in commands:
            finish(command)
        finish(watch.headrace("evaluate", str(run), "--episodes", "1"))
    finally:
        server.terminate()
    finish(server)
    assert watch.contacts == []
    telemetry = [path for path in watch.home.rglob("*") if "Microsoft" in path.name]  # where it keeps its identifier
    assert telemetry == []
