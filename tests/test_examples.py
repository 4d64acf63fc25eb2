"""The examples run as users run them, and reach their results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_own_loop_learns_to_balance() -> None:
    """Random play gives CartPole about 22 steps, and no mean of 20 episodes near 60; 6,000 steps gave 159."""
    command = [sys.executable, str(ROOT / "examples/own_loop.py"), "--steps", "6000", "--seed", "0"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.fullmatch(r"(\d+) episodes; mean return of the last 20: ([\d.]+) of 500\n", output)
    assert found, output
    assert int(found[1]) > 20
    assert float(found[2]) > 80


@pytest.mark.slow
def test_attention_learns_to_balance(tmp_path: Path) -> None:
    """After 5,000 steps it scored 92 of 500; random play gives 22."""
    command = [sys.executable, str(ROOT / "examples/attention.py"), "--steps", "5000"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    found = re.search(r"^mean return ([\d.]+) of 500: .*/runs/", output, re.MULTILINE)
    assert found, output
    assert float(found[1]) > 45


def test_readme_shows_lines_of_own_loop() -> None:
    """Every statement about the table that README prints is in the example word for word."""
    readme = (ROOT / "README.md").read_text()
    example = {line.split("  #")[0].strip() for line in (ROOT / "examples/own_loop.py").read_text().splitlines()}
    blocks = [block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "table.writer(" in block]
    assert len(blocks) == 1
    shown = {line.split("  #")[0].strip() for line in blocks[0].splitlines()} - {"", "..."}
    assert len(shown) >= 8
    assert shown - example == set()
