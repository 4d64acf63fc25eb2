"""The tutorial's files and commands work in the order of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs/tutorial.md"


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    output = ""
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            (tmp_path / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)
            continue
        command = ["bash", "-e", "-c", block]
        environment = os.environ | {"PATH": paths}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        output = done.stdout
    assert float(output.removeprefix("mean return")) > -10  # waiting gets -25
    assert (tmp_path / "docked/report.html").exists()
