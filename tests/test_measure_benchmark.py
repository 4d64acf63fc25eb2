"""What the benchmarks share: files of results that only a whole measurement replaces, arguments, exit statuses."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import measure
from benchmarks.measure import Rows, at_least, at_most, make_parser, positive_number, read_csv, run

from headrace.errors import ConfigError


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of results."""
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    monkeypatch.setattr(measure, "origin", lambda: {"commit": "old"})
    return tmp_path


def scores(path: Path) -> list[tuple[str, str, str]]:
    return [(row["seed"], row["score"], row["commit"]) for row in read_csv(path)]


def write(*records: tuple[int, float], key: tuple[str, ...] = ()) -> None:
    with Rows("runs", key) as rows:
        for seed, score in records:
            rows.add({"seed": seed, "score": score})


def interrupted() -> None:
    with Rows("runs") as rows:
        rows.add({"seed": 0, "score": 9.0})
        assert scores(rows.path.with_name("runs.partial.csv")) == [("0", "9.0", "old")]
        raise KeyboardInterrupt


def test_a_measurement_that_is_interrupted_replaces_no_earlier_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write((0, 1.0), (1, 2.0))
    assert scores(folder / "runs.csv") == [("0", "1.0", "old"), ("1", "2.0", "old")]
    assert [path.name for path in folder.iterdir()] == ["runs.csv"]
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert scores(folder / "runs.csv") == [("0", "1.0", "old"), ("1", "2.0", "old")]
    assert scores(folder / "runs.partial.csv") == [("0", "9.0", "old")]
    assert capsys.readouterr().err == f"benchmarks: what was measured is in {folder / 'runs.partial.csv'}\n"
    write((0, 3.0))
    assert scores(folder / "runs.csv") == [("0", "3.0", "old")]
    assert [path.name for path in folder.iterdir()] == ["runs.csv"]


def test_rows_that_are_not_measured_again_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write((0, 1.0), (1, 2.0), (0, 3.0))
    monkeypatch.setattr(measure, "origin", lambda: {"commit": "new"})
    write((1, 5.0), (2, 6.0), key=("seed",))
    kept, measured = [("0", "1.0", "old"), ("0", "3.0", "old")], [("1", "5.0", "new"), ("2", "6.0", "new")]
    assert scores(folder / "runs.csv") == kept + measured


def test_earlier_rows_may_have_other_columns(folder: Path) -> None:
    write((0, 1.0))
    with Rows("runs", key=("seed",)) as rows:
        rows.add({"seed": 1, "workers": 2})
    assert [(row["score"], row["workers"]) for row in read_csv(folder / "runs.csv")] == [("1.0", ""), ("", "2")]


def test_without_records_nothing_is_written(folder: Path) -> None:
    write((0, 1.0))
    write()
    assert scores(folder / "runs.csv") == [("0", "1.0", "old")]


def raising(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("main", "status", "last_line"),
    [
        (lambda: 0, 0, ""),
        (lambda: 1, 1, ""),
        (raising(ConfigError("seeds is 0")), 2, "benchmarks: seeds is 0"),
        (raising(RuntimeError("it failed")), 2, "RuntimeError: it failed"),
        (raising(KeyboardInterrupt()), 130, "benchmarks: interrupted"),
        (raising(SystemExit(2)), 2, ""),
    ],
)
def test_the_exit_status_says_how_it_ended(
    main: Callable[[], int], status: int, last_line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(main)
    assert ended.value.code == status
    lines = capsys.readouterr().err.splitlines()
    assert (lines or [""])[-1] == last_line
    assert (len(lines) > 1) == (last_line == "RuntimeError: it failed")  # only this one has a traceback


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("benchmarks/table.py", "python -m benchmarks.table"),
        ("benchmarks/zoo/__main__.py", "python -m benchmarks.zoo"),
        ("benchmarks/__main__.py", "python -m benchmarks"),
    ],
)
def test_help_and_wrong_options_end_it(
    file: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for argument, status in (("--help", 0), ("--nosuch", 2)):
        monkeypatch.setattr(sys, "argv", [file, argument])
        with pytest.raises(SystemExit) as ended:
            make_parser("Measures\nsomething.").parse_args()
        assert ended.value.code == status
        said = capsys.readouterr()
        assert (said.out or said.err).startswith(f"usage: {command} [-h]\n")
        assert ("\nMeasures\nsomething.\n" in said.out) == (status == 0)
        assert measure.origin()["command"] == f"{command} {argument}"


def test_a_time_is_a_finite_number_above_0(capsys: pytest.CaptureFixture[str]) -> None:
    parser = make_parser("")
    parser.add_argument("--seconds", type=positive_number)
    assert parser.parse_args(["--seconds", "0.5"]).seconds == 0.5
    for text in ("0", "-1", "nan", "inf", "x"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--seconds", text])


def test_a_verdict_is_of_the_figure_that_is_recorded() -> None:
    assert at_most("sample", "us", 1.10004, 1.1, "array", 1.0, scale=True).verdict == "holds"
    assert at_most("sample", "us", 1.101, 1.1, "array", 1.0, scale=True).verdict == "MISSED"
    assert at_least("rate", "1/s", 0.97996, "alone", 1.0, 0.98).verdict == "holds"
