"""Files that a user names."""

import errno
import os
from pathlib import Path

import pytest

from headrace.errors import ConfigError, StorageError
from headrace.report import output
from headrace.report.output import cut_torn_line, write_output
from headrace.report.run_directory import RunDirectory
from headrace.report.run_paths import require_output, require_output_folder


@pytest.mark.parametrize(
    "name", ["config.json", "summary.json", "checkpoints/000001-updates-5/state.json", "logs/../config.json"]
)
def test_a_run_s_own_files_are_refused(tmp_path: Path, name: str) -> None:
    with RunDirectory.create(tmp_path / "run", "{}"):
        pass
    with pytest.raises(ConfigError, match="another path, since this is a run's own file"):
        require_output("output", tmp_path / "run" / name, ".json")


@pytest.mark.parametrize("name", ["costs.json", "checkpoints.json"])
def test_other_files_next_to_them_are_not(tmp_path: Path, name: str) -> None:
    with RunDirectory.create(tmp_path / "run", "{}"):
        pass
    require_output("output", tmp_path / "run" / name, ".json")
    (tmp_path / "checkpoints").mkdir()
    require_output("output", tmp_path / "checkpoints" / name, ".json")  # no run's


def test_a_run_s_directory_takes_no_other_results(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", "{}"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for name in ("run", "run/.", "link", "run/logs", "link/logs", "run/checkpoints/new"):
        with pytest.raises(ConfigError, match=f"^output is .*{name.rstrip('/.')}; it must be another directory"):
            require_output_folder(tmp_path / name)
    for name in ("run/new", "new", ""):
        require_output_folder(tmp_path / name)


def test_what_can_t_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "made.html").mkdir()
    for path, message in (
        (tmp_path / "made.html", "it is a directory"),
        (tmp_path / "none" / "a.html", "none is not a directory"),
    ):
        with pytest.raises(StorageError, match=message):
            require_output("output", path, ".html")
    with pytest.raises(ConfigError, match=r"page.txt; it must be a path that ends in .html"):
        require_output("output", tmp_path / "page.txt", ".html")


@pytest.mark.parametrize(
    ("cause", "raised"),
    [(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), StorageError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_a_file_that_can_t_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: BaseException, raised: type[BaseException]
) -> None:
    path = tmp_path / "policy.onnx"
    write_output(path, b"good")

    def fail(descriptor: int) -> None:
        raise cause

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised, match="No space left on device" if raised is StorageError else None):
        write_output(path, b"better")
    assert path.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ('{"a', ""), ('{"a": 1}\n', '{"a": 1}\n'), ('{"a": 1}\n{"b": 22222222', '{"a": 1}\n'), ("x\ny", "x\ny")],
)
@pytest.mark.parametrize("block", [1, 3, 9, 100])
def test_only_an_unfinished_object_at_the_end_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, block: int
) -> None:
    monkeypatch.setattr(output, "_BLOCK_BYTES", block)
    (tmp_path / "records").write_text(before)
    cut_torn_line(tmp_path / "records")
    assert (tmp_path / "records").read_text() == after
