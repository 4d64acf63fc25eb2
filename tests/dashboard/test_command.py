"""`headrace dashboard` as a process, and without its extra."""

import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from headrace.cli.main import main


def test_without_the_extra_it_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "headrace.dashboard.service", raising=False)
    assert main(["dashboard", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert 'pip install "headrace[dashboard]"' in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(number, tmp_path):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "headrace", "dashboard", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = re.fullmatch(r"dashboard at (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())[1]
        with urlopen(address, timeout=30) as answer:
            assert b"Headrace" in answer.read()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate()
