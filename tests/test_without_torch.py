"""Torch is imported by the torch engine only: runs on the native engine, in whose processes nothing imports it.

Nor do roles import onnx or its runtime that build or run no graph.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OFF_POLICY = ["--batch-size", "16", "--learning-starts", "64", "--replay-capacity", "2000", "--samples-per-step", "4"]
DQN = ["CartPole-v1", "--hidden", "16", *OFF_POLICY]
A3C = ["CartPole-v1", "--algorithm", "a3c", "--hidden", "16"]
SAC = ["Pendulum-v1", "--algorithm", "sac", "--hidden", "16", "--critic-hidden", "16", *OFF_POLICY]
D4PG = ["Pendulum-v1", "--algorithm", "d4pg", "--hidden", "16", "--critic-hidden", "16", *OFF_POLICY]
DYNA_Q = [*DQN, "--algorithm", "dyna-q", "--model-hidden", "16"]
TORCH_ENGINE = {
    "headrace.algorithms.sac.torch_critics",
    "headrace.gradients.device",
    "headrace.networks.normalized_modules",
    "headrace.networks.own_modules",
    "headrace.networks.torch_modules",
    "headrace.networks.torch_network",
}
IMPORT_ALL = f"""
import importlib, pkgutil, sys
import headrace
sys.modules["torch"] = None  # imports of it fail
for module in pkgutil.walk_packages(headrace.__path__, "headrace."):
    if module.name not in {TORCH_ENGINE} | {{"headrace.__main__"}}:
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # of an extra that is not installed
            if "torch" in str(error):
                raise
"""
ACT = """
import sys
import headrace
policy = headrace.load(sys.argv[1])
policy.act([0.0] * policy.spec.observation_shape[0])
"""
LIMITS = ["--steps", "1000", "--final-evaluation-episodes", "2", "--device", "auto"]


def test_all_modules_but_the_torch_engine_s_do_without_it() -> None:
    subprocess.run([sys.executable, "-c", IMPORT_ALL], check=True, timeout=120)


@pytest.mark.parametrize("role", ["remote_actor", "remote_worker", "evaluator", "planner", "separate_role"])
def test_roles_import_neither_onnx_nor_its_runtime_before_they_use_it(role: str) -> None:
    program = "import sys; sys.modules |= dict.fromkeys(('onnx', 'onnxruntime')); "
    program += f"import headrace.launch.child, headrace.roles.{role}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


class Guarded:
    """Runs commands in whose processes an import of torch fails, and is recorded even if the error is caught."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "torch").mkdir(parents=True)
        (folder / "torch/__init__.py").write_text(
            "import pathlib, traceback\n"
            f"with pathlib.Path({str(folder / 'imports')!r}).open('a') as record:\n"
            "    print([f'{each.filename}:{each.lineno}' for each in traceback.extract_stack()], file=record)\n"
            "raise ImportError('no process may import torch here')\n"
        )

    def run(self, *words: object) -> str:
        return self.python("-m", "headrace", *words)

    def python(self, *words: object) -> str:
        paths = os.pathsep.join([str(self._folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, *map(str, words)]
        environment = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert not self.imports(), self.imports()
        assert done.returncode == 0, done.stderr
        return done.stdout

    def imports(self) -> str:
        """Where torch was imported."""
        record = self._folder / "imports"
        return record.read_text() if record.exists() else ""


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path / "guard")


@pytest.mark.parametrize(
    ("words", "topology"),
    [
        (DQN, ["apex", "--actors", "1"]),
        (A3C, ["hogwild", "--workers", "1"]),
        *(
            pytest.param(words, topology, marks=pytest.mark.slow)
            for words, topology in (
                (A3C, ["serial"]),
                (SAC, ["lock", "--workers", "1"]),
                (D4PG, ["parameter-server", "--workers", "1"]),
                (DYNA_Q, ["apex", "--actors", "1"]),
                (DQN, ["ad-psgd", "--workers", "2"]),
            )
        ),
    ],
    ids=lambda words: "-".join(word for word in words if word.isalnum() and not word.isdigit()),
)
def test_no_process_of_a_run_imports_torch(
    guarded: Guarded, tmp_path: Path, words: list[str], topology: list[str]
) -> None:
    guarded.run("train", *words, "--topology", *topology, *LIMITS, "--run-dir", tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "topology"),
    [
        pytest.param(DQN, ["serial"], id="dqn"),
        pytest.param(SAC, ["apex", "--actors", "1"], id="sac", marks=pytest.mark.slow),
    ],
)
def test_nothing_imports_torch_that_uses_a_run_s_policy(
    guarded: Guarded, tmp_path: Path, words: list[str], topology: list[str]
) -> None:
    run = tmp_path / "run"
    guarded.run("train", *words, "--topology", *topology, *LIMITS, "--run-dir", run)
    guarded.run("evaluate", run, "--episodes", "1")
    guarded.run("export", run, tmp_path / "policy.onnx")
    for path in (run, tmp_path / "policy.onnx"):
        guarded.python("-c", ACT, path)


def test_an_import_would_be_noticed(guarded: Guarded, tmp_path: Path) -> None:
    words = [*DQN, "--topology", "serial", *LIMITS, "--learner-engine", "torch", "--run-dir", tmp_path / "run"]
    with pytest.raises(AssertionError, match="torch_network"):
        guarded.run("train", *words)
