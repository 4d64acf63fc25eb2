"""Dispatch, exit codes, and modules that must not be imported."""

import subprocess
import sys

import pytest

from headrace.cli.main import main
from headrace.errors import CheckpointError, ConfigError, LaunchError

COMMANDS = [
    "train",
    "tune",
    "resume",
    "evaluate",
    "report",
    "dashboard",
    "export",
    "check",
    "simulate",
    "presets",
    "study",
    "serve",
    "learner",
    "actor",
    "worker",
    "stats",
    "drop",
]


def answer(monkeypatch, error):
    """Makes `headrace presets` end by this error."""

    def run(arguments):
        raise error

    monkeypatch.setattr("headrace.cli.presets.run", run)
    return main(["presets"])


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help(words, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert "headrace train LunarLander-v3 --until-score 200" in out


def test_version(monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"1.2.3 of {name}")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "headrace 1.2.3 of headrace\n"


@pytest.mark.parametrize("words", [*([name, "--help"] for name in COMMANDS), ["help", "simulate"]])
def test_every_command_has_help(words, capsys):
    assert main(words) == 0
    name = next(word for word in words if word in COMMANDS)
    assert f"usage: headrace {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["trian"], "headrace: error: trian is not a command; did you mean train?\n"),
        (["qq"], f"headrace: error: qq is not a command; the commands are {', '.join(COMMANDS)}\n"),
        (["evaluate"], "headrace: error: RUN is missing (see headrace evaluate --help)\n"),
        (["export", "run"], "headrace: error: FILE is missing (see headrace export --help)\n"),
        (["evaluate", "run", "--episodes", "0"], "headrace: error: episodes is 0; it must be above 0\n"),
        (
            ["report", "/no/run"],
            "headrace: error: /no/run is not a run directory: there is no such directory\n",
        ),
        (
            ["evaluate", "run", "--jsn"],
            "headrace: error: --jsn is not an option of headrace evaluate; did you mean --json?\n",
        ),
    ],
)
def test_mistakes_exit_with_2(words, complaint, capsys):
    assert main(words) == 2
    assert capsys.readouterr() == ("", complaint)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("n_step is 0"), 2, "headrace: error: n_step is 0\n"),
        (CheckpointError("broken"), 2, "headrace: error: broken\n"),
        (LaunchError("actor 1 died"), 1, "headrace: error: actor 1 died\n"),
        (KeyboardInterrupt(), 130, "headrace: interrupted\n"),
        (PermissionError(13, "Permission denied", "/a/b"), 2, "headrace: error: /a/b: Permission denied\n"),
    ],
)
def test_exit_codes(monkeypatch, capsys, error, code, text):
    assert answer(monkeypatch, error) == code
    assert capsys.readouterr().err == text


def test_a_defect_is_not_hidden(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        answer(monkeypatch, ZeroDivisionError())


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["presets"],
        ["train", "CartPole-v1", "--help"],
        ["tune", "CartPole-v1", "--help"],
        ["evaluate", "/no"],
        ["serve", "--listen", "tcp://"],
        ["stats", "redis://h"],
        ["actor"],
        ["worker"],
    ],
)
def test_commands_that_only_print_do_not_import_torch(words):
    code = "import sys; from headrace.cli.main import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "False"


def test_a_full_output_device_is_one_line():
    code = "import sys; from headrace.cli.main import main; sys.exit(main(['--help']))"
    with open("/dev/full", "w") as full:
        run = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "headrace: error: can't write the output: No space left on device\n"


def test_a_closed_output_pipe_gives_no_traceback():
    run = subprocess.Popen(
        [sys.executable, "-c", "import sys; from headrace.cli.main import main; sys.exit(main(['presets']))"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait() == 1


def test_no_file_takes_the_number_of_a_closed_standard_file() -> None:
    code = (
        "import os\nfrom headrace.cli.main import main\nfor number in range(3): os.close(number)\nmain()\n"
        "os._exit(os.open('/dev/null', os.O_RDONLY))"
    )
    assert subprocess.run([sys.executable, "-c", code, "--version"], check=False).returncode == 3
