"""The experiment tracker gets the numbers that TensorBoard gets."""

import json
import sys
from types import SimpleNamespace

import pytest

from headrace.errors import ConfigError
from headrace.report.run_directory import RunDirectory
from headrace.report.tracking import Tracker, import_tracker


def stored(log):
    """The records of a file in LevelDB's log format: blocks of 32 KiB, with records in one or several parts."""
    place, record = 7, b""  # after the file's own header
    while place + 7 <= len(log):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
        length, kind = int.from_bytes(log[place + 4 : place + 6], "little"), log[place + 6]
        record += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def test_a_run_is_stored_offline(tmp_path, progress, monkeypatch):
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    with RunDirectory.create(tmp_path / "lander", "{}") as run:
        run.add_sink(Tracker(wandb, run.path, {"seed": 7, "algorithm": {"name": "dqn"}}))
        run.append(progress().to_record())
        run.append({"kind": "exit", "role": "actor 0", "reason": "x", "seconds": 1.0})
        run.append({"kind": "evaluation", "seconds": 2.0, "environment_steps": 200_000, "mean_return": 250.0})
    wandb.teardown()
    [path] = (tmp_path / "lander").glob("wandb/offline-run-*/run-*.wandb")
    rows, config = [], {}
    for data in stored(path.read_bytes()):
        record = Record.FromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif record.WhichOneof("record_type") == "run":
            assert (record.run.display_name, record.run.project) == ("lander", "headrace")
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
    assert (config["seed"], config["algorithm"]) == (7, {"name": "dqn"})
    assert len(rows) == 2
    assert (rows[0]["environment_steps"], rows[0]["progress/staleness"]) == (123_000, 2.34)
    assert rows[0]["actor_times/environment"] == 0.6
    assert (rows[1]["environment_steps"], rows[1]["evaluation/mean_return"]) == (200_000, 250.0)


def test_a_tracker_that_is_not_installed_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"track is wandb, .* pip install \"headrace\[wandb\]\""):
        import_tracker("wandb")


def test_a_tracker_that_fails_ends_no_run_and_is_reported_once(tmp_path, capsys):
    calls = []

    def fail(*_arguments):
        calls.append(_arguments)
        raise RuntimeError("no space\nleft")

    tracked = SimpleNamespace(define_metric=lambda *_, **__: None, log=fail, finish=fail)
    package = SimpleNamespace(init=lambda **_: tracked, Settings=dict, __name__="wandb")
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.add_sink(Tracker(package, run.path, {}))
        for steps in (1, 2, 3):
            run.append({"kind": "progress", "environment_steps": steps})
    assert len(run.read_metrics()) == 3
    assert [len(arguments) for arguments in calls] == [1, 0]
    error = capsys.readouterr().err
    assert "warning: wandb failed, and gets no more records of this run: RuntimeError: no space left" in error
    assert error.count("\n") == 1


def test_a_tracker_that_can_not_start_is_one_line(tmp_path):
    def fail(**_options):
        raise RuntimeError("no API key")

    package = SimpleNamespace(init=fail, Settings=dict, __name__="wandb")
    with pytest.raises(ConfigError, match="track is wandb, which can't start a run: no API key"):
        Tracker(package, tmp_path, {})
