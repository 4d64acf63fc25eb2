"""Installs a wheel into empty environments without a compiler, one for each Python named, and trains with it.

Usage: test_wheel.py WHEEL [PYTHON ...]; without a PYTHON, with the one that runs this. Prints the wheel's size and, for
each Python, the seconds from `pip install` to a trained CartPole-v1.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_CONSTRAINTS = _ROOT / "constraints.txt"
_SCORE = 195  # mean return at which CartPole counts as solved


def check_contents(wheel: Path) -> None:
    """Exits unless the wheel has exactly the package's tracked files, one native module, and its metadata."""
    listed = subprocess.run(["git", "ls-files", "-z", "src/headrace"], check=True, cwd=_ROOT, capture_output=True)
    tracked = {name.removeprefix("src/") for name in listed.stdout.decode().split("\0") if name}
    metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if not name.startswith(metadata) and name[-1] != "/"}
    modules = {name for name in names if name.startswith("headrace/_native.") and name.endswith(".so")}
    others, missing = sorted(names - modules - tracked), sorted(tracked - names)
    if others or missing or len(modules) != 1:
        sys.exit(f"{wheel.name}: unexpected files {others}, missing {missing}, native modules {sorted(modules)}")


def run(environment: Path, *command: str) -> None:
    """Runs a command that finds programs in the environment only, so that nothing can be compiled."""
    settings = {**os.environ, "PATH": str(environment / "bin"), "PYTHONPATH": "", "PYTHONNOUSERSITE": "1"}
    subprocess.run(command, check=True, cwd=environment, env=settings)


def check_training(wheel: Path, interpreter: str) -> None:
    """Exits unless CartPole-v1 is trained in an empty environment of the interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder)
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = str(environment / "bin/python")
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
        start = time.monotonic()
        run(environment, *install, "--constraint", str(_CONSTRAINTS), str(wheel))
        installed = time.monotonic()
        run(environment, str(environment / "bin/headrace"), "train", "CartPole-v1",
            "--until-score", str(_SCORE), "--steps", "200k", "--run-dir", "run", "--quiet")  # fmt: skip
        trained = time.monotonic()
        records = [json.loads(line) for line in (environment / "run/metrics.jsonl").read_text().splitlines()]
        best = max(record["mean_return"] for record in records if record["kind"] == "evaluation")
    if best < _SCORE:
        sys.exit(f"{interpreter}: CartPole-v1 reached a mean return of {best}; {_SCORE} is required")
    seconds = f"installed in {installed - start:.0f} s, CartPole-v1 at {best:.0f} after {trained - start:.0f} s in all"
    print(f"{interpreter}: {seconds}")


def main() -> None:
    """Checks the wheel that the command line names."""
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit(f"usage: test_wheel.py WHEEL [PYTHON ...]; {' '.join(sys.argv[1:]) or 'nothing'} is not a file")
    wheel = Path(sys.argv[1]).resolve()
    check_contents(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    for interpreter in sys.argv[2:] or [sys.executable]:
        check_training(wheel, interpreter)


if __name__ == "__main__":
    main()
