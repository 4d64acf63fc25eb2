"""The origin of rows."""

import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace.studies.results import Origin, write_csv


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_that_of_the_folder_and_marked_where_sources_differ(tmp_path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    def commit_of(folder: Path) -> str:
        return Origin.here("a command", folder).commit

    sources, results, installed = (tmp_path / name for name in ("src", "results", "installed"))
    for folder in (sources, results, installed):
        folder.mkdir()
    (sources / "a.py").write_text("one")
    git("init", "-q")
    git("add", "src")
    git("commit", "-qm", "one")
    head = git("rev-parse", "--short=12", "HEAD")
    (results / "figures.csv").write_text("1")
    assert commit_of(sources) == head
    (sources / "a.py").write_text("two")
    assert commit_of(sources) == f"{head}+"
    (installed / "a.py").write_text("a package's")
    assert commit_of(installed) == f"version {version('headrace')}"  # the repository is a user's own


def test_a_file_of_an_earlier_run_does_not_stay_where_there_is_nothing_to_write(tmp_path, origin) -> None:
    path = tmp_path / "links.csv"
    write_csv(path, [{"a": 1.0}], origin)
    assert path.read_text().startswith("a,command,commit,date,machine,cores\n1.0,headrace study in-network,0123")
    write_csv(path, [], origin)
    assert not path.exists()
    write_csv(path, [], origin)


def test_numbers_have_five_significant_digits(tmp_path, origin) -> None:
    path = tmp_path / "links.csv"
    write_csv(path, [{"a": 123456.789, "b": 0.123456, "c": 1234567}], origin)
    assert path.read_text().splitlines()[1].startswith("123460.0,0.12346,1234567,headrace study in-network,")
