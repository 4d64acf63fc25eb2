"""`import headrace` is light: packages are imported by the functions that use them."""

import subprocess
import sys

HEAVY = ["gymnasium", "matplotlib", "numpy", "onnx", "onnxruntime", "optuna", "ray", "rich", "tensorboard", "torch"]


def _imported(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_package_imports_no_heavy_one() -> None:
    assert not _imported("import headrace") & set(HEAVY)


def test_configuring_a_run_imports_neither_torch_nor_what_draws_and_tunes() -> None:
    found = _imported("import headrace\nheadrace.train, headrace.tune, headrace.DQN(), headrace.Apex()")
    assert "numpy" in found
    assert not found & {"matplotlib", "optuna", "ray", "tensorboard", "torch"}


def test_a_heavy_import_would_be_noticed() -> None:
    assert _imported("import headrace, rich") & set(HEAVY)
