"""Run directories: refusals, the lock, torn lines, full disks, TensorBoard."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from headrace.errors import CheckpointError, StorageError
from headrace.report import run_directory, run_paths
from headrace.report.run_directory import RunDirectory
from headrace.report.run_paths import default_run_directory

NOW = datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ("LunarLander-v3", "LunarLander-v3-dqn-20260102-030405"),
        ("ALE/Breakout-v5", "ALE-Breakout-v5-dqn-20260102-030405"),
        ("my.module:make", "my.module-make-dqn-20260102-030405"),
    ],
)
def test_default_name(environment, name):
    assert default_run_directory(environment, "dqn", NOW) == Path("runs") / name


def test_default_name_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for _ in range(3):
        path = default_run_directory("X", "dqn", NOW)
        path.mkdir(parents=True)
        names.append(path.name)
    assert names == ["X-dqn-20260102-030405", "X-dqn-20260102-030405-2", "X-dqn-20260102-030405-3"]


def test_processes_that_start_at_the_same_time_get_separate_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    together = threading.Barrier(8)

    def create(_):
        together.wait(60)
        return RunDirectory.create_default("X", "dqn", NOW, "{}")

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))
    assert len({run.path for run in made}) == 8
    assert all(run.read_config_text() == "{}" for run in made)
    for run in made:
        run.close()


def test_a_default_name_taken_in_the_meantime_is_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = []

    def choose(*arguments):
        path = default_run_directory(*arguments)
        if not others:
            others.append(RunDirectory.create(path, '{"whose": "another\'s"}'))
        return path

    monkeypatch.setattr(run_paths, "default_run_directory", choose)
    with RunDirectory.create_default("X", "dqn", NOW, "{}") as run, others[0]:
        assert run.path.name == "X-dqn-20260102-030405-2"


def test_settings_that_no_run_wrote_are_refused_with_their_path(tmp_path):
    path = tmp_path / "run"
    RunDirectory.create(path, '{"environment":').close()
    with pytest.raises(CheckpointError, match=rf"^{path}/config.json is not a run's configuration.*not JSON"):
        RunDirectory.open(path).read_config()


def test_created_directory_can_be_opened_and_read(tmp_path):
    path = tmp_path / "deep" / "run"
    with RunDirectory.create(path, '{"environment": "X"}\n') as run:
        run.append({"kind": "progress", "environment_steps": 7, "loss": 0.5})
        run.append({"kind": "exit", "role": "actor 1", "reason": "exit code 3", "seconds": 2.0})
        run.write_summary({"solved": True})
    reader = RunDirectory.open(path)
    assert reader.read_config_text() == '{"environment": "X"}\n'
    assert reader.read_metrics() == [
        {"kind": "progress", "environment_steps": 7, "loss": 0.5},
        {"kind": "exit", "role": "actor 1", "reason": "exit code 3", "seconds": 2.0},
    ]
    assert reader.read_summary() == {"solved": True}
    assert all(folder.is_dir() for folder in (reader.checkpoints_path, reader.logs_path, reader.tensorboard_path))


def test_a_run_without_records_reads_as_empty(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        assert run.read_metrics() == []
        assert run.read_summary() is None


def test_numpy_and_numbers_that_are_not_finite_become_json(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.append(
            {"kind": "x", "a": np.float32(0.5), "b": np.int64(3), "c": math.nan, "d": {"e": np.float64(-np.inf)}}
        )
        assert run.read_metrics() == [{"kind": "x", "a": 0.5, "b": 3, "c": None, "d": {"e": None}}]


def test_create_refuses_another_run(tmp_path):
    path = tmp_path / "my run"
    RunDirectory.create(path, "{}").close()
    (path / "checkpoints" / "writing").mkdir()  # a crash during the first one
    with pytest.raises(CheckpointError, match=r"holds another run, which has no checkpoint; remove it.*--run-dir$"):
        RunDirectory.create(path, "{}")
    (path / "checkpoints" / "000001-updates-1").mkdir()
    with pytest.raises(CheckpointError, match=rf"holds another run.*--run-dir.*headrace resume '{path}'"):
        RunDirectory.create(path, "{}")


def test_a_process_forked_during_the_run_does_not_keep_the_directory_locked(tmp_path):
    run = RunDirectory.create(tmp_path / "run", "{}")
    ready, tell = os.pipe()
    heard, said = os.pipe()
    forked = os.fork()
    if forked == 0:
        try:
            os.close(tell)
            run.close()  # as one that leaves by an exception
            os.write(said, b".")
            os.read(ready, 1)  # until the test has ended
        finally:
            os._exit(0)
    os.close(ready)
    os.close(said)
    try:
        assert os.read(heard, 1)
        with pytest.raises(CheckpointError, match="in use by process"):
            RunDirectory.open(tmp_path / "run", writing=True)
        run.close()
        RunDirectory.open(tmp_path / "run", writing=True).close()
    finally:
        os.close(tell)
        os.waitpid(forked, 0)


def test_create_refuses_other_files_and_leaves_nothing(tmp_path):
    for name in ("d", "c", "b", "a"):
        (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=r"holds other files \(a, b, c, \.\.\.\); choose another --run-dir"):
        RunDirectory.create(tmp_path, "{}")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("no space")])
@pytest.mark.parametrize("existed", [False, True])
def test_a_creation_that_fails_leaves_nothing(tmp_path, monkeypatch, error, existed):
    path = tmp_path / "run"
    if existed:
        path.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(run_directory, "write_output", Mock(side_effect=error))
        with pytest.raises(type(error)):
            RunDirectory.create(path, "{}")
    assert path.exists() == existed
    RunDirectory.create(path, "{}").close()


def test_a_lock_that_can_not_be_written_is_released_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(StorageError, match=r"run/\.lock: No space left"):
            RunDirectory.create(path, "{}")
        assert not path.exists()
        path.mkdir()
        with pytest.raises(StorageError, match=r"run/\.lock: No space left"):
            RunDirectory.create(path, "{}")
    RunDirectory.create(path, "{}").close()


def test_create_refuses_a_file(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(CheckpointError, match="is a file"):
        RunDirectory.create(tmp_path / "run", "{}")


def test_create_below_a_file_is_a_storage_error_that_names_the_path(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file/run: Not a directory"):
        RunDirectory.create(tmp_path / "file" / "run", "{}")


@pytest.mark.parametrize(("make", "reason"), [(False, "no such directory"), (True, "no config.json")])
def test_open_refuses_a_directory_that_is_not_a_run(tmp_path, make, reason):
    path = tmp_path / "run"
    if make:
        path.mkdir()
    with pytest.raises(CheckpointError, match=reason):
        RunDirectory.open(path)


def test_only_one_process_writes(tmp_path):
    path = tmp_path / "run"
    first = RunDirectory.create(path, "{}")
    with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
        RunDirectory.open(path, writing=True)
    RunDirectory.open(path).close()  # reading is free
    first.close()
    first.close()
    RunDirectory.open(path, writing=True).close()


def test_a_killed_process_leaves_no_lock(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from headrace.report.run_directory import RunDirectory as R; "
        "run = R.create(Path(sys.argv[1]), '{}'); run.append({'kind': 'x'}); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    assert ended.returncode == -9
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        assert run.read_metrics() == [{"kind": "x"}]


def test_writing_needs_the_lock(tmp_path):
    RunDirectory.create(tmp_path / "run", "{}").close()
    reader = RunDirectory.open(tmp_path / "run")
    with pytest.raises(CheckpointError, match="reading only"):
        reader.append({"kind": "x"})
    with pytest.raises(CheckpointError, match="reading only"):
        reader.write_summary({})


def test_a_torn_last_line_is_skipped_by_readers_and_cut_by_writers(tmp_path):
    path = tmp_path / "run"
    with RunDirectory.create(path, "{}") as run:
        run.append({"kind": "a"})
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"kind": "tor')
    assert RunDirectory.open(path).read_metrics() == [{"kind": "a"}]
    with RunDirectory.open(path, writing=True) as run:
        run.append({"kind": "b"})
        assert run.read_metrics() == [{"kind": "a"}, {"kind": "b"}]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.metrics_path.write_text('{"kind": "a"}\nnonsense\n{"kind": "b"}\n')
        with pytest.raises(CheckpointError, match=r"metrics.jsonl, line 2, is not a record"):
            run.read_metrics()


def test_no_space_for_a_record(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.metrics_path.symlink_to("/dev/full")
        with pytest.raises(StorageError, match=r"can't write .*metrics.jsonl: No space left on device"):
            run.append({"kind": "a"})


def test_no_space_for_a_summary_keeps_the_old_one(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.write_summary({"solved": False})
        draft = run.path / "summary.json.tmp"
        draft.symlink_to("/dev/full")
        with pytest.raises(StorageError, match=r"can't write .*summary.json: No space left on device"):
            run.write_summary({"solved": True})
        assert not draft.exists()
        assert run.read_summary() == {"solved": False}


def test_a_broken_summary_is_refused(tmp_path):
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.summary_path.write_text("[")
        with pytest.raises(CheckpointError, match=r"summary.json is not a summary"):
            run.read_summary()


@pytest.mark.parametrize("write", ["append", "write_summary", "require_place"])
def test_a_directory_that_was_renamed_is_noticed_and_followed(tmp_path, write):
    path, place = tmp_path / "run", tmp_path / "moved here"
    with RunDirectory.create(path, "{}") as run:
        path.rename(place)
        with pytest.raises(StorageError, match=rf"{path} .*{place} .*headrace resume '{place}'"):
            getattr(run, write)(*([] if write == "require_place" else [{"kind": "a"}]))
        assert not path.exists()
        assert run.follow()
        run.append({"kind": "b"})
    assert [record["kind"] for record in RunDirectory.open(place).read_metrics()] == ["b"]
    assert not path.exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_directory_that_was_removed_is_noticed(tmp_path, again):
    path = tmp_path / "run"
    with RunDirectory.create(path, "{}") as run:
        run.append({"kind": "a"})
        shutil.rmtree(path)
        if again:
            path.mkdir()
        with pytest.raises(StorageError, match=rf"{path} was removed"):
            run.append({"kind": "b"})
        assert not run.follow()
        run.discard_unused()
    assert path.exists() == again
    assert not again or not list(path.iterdir())


def test_an_unused_directory_can_be_discarded_but_not_a_used_one(tmp_path):
    with RunDirectory.create(tmp_path / "unused", "{}") as run:
        run.discard_unused()
    assert not (tmp_path / "unused").exists()
    with RunDirectory.create(tmp_path / "used", "{}") as run:
        run.append({"kind": "a"})
        run.discard_unused()
    assert (tmp_path / "used" / "config.json").exists()
    with RunDirectory.create(tmp_path / "shared", "{}") as run:
        (run.path / "notes.txt").touch()
        run.discard_unused()
    assert (tmp_path / "shared" / "notes.txt").exists()
    (tmp_path / "empty").mkdir()
    with RunDirectory.create(tmp_path / "empty", "{}") as run:
        run.discard_unused()
    assert not list((tmp_path / "empty").iterdir())  # it was there before the run


def test_sinks_get_later_records_and_are_closed_once(tmp_path):
    class Sink:
        def __init__(self):
            self.calls = []

        def append(self, record):
            self.calls.append(record)

        def close(self):
            self.calls.append("closed")

    sink = Sink()
    with RunDirectory.create(tmp_path / "run", "{}") as run:
        run.append({"kind": "a"})
        run.add_sink(sink)
        run.append({"kind": "b", "x": np.float32(0.5), "y": float("nan")})
        run.close()
    assert sink.calls == [{"kind": "b", "x": 0.5, "y": None}, "closed"]


def test_a_sink_that_fails_leaves_nothing_open(tmp_path):
    calls = []

    class Sink:
        def append(self, record):
            pass

        def close(self):
            calls.append(locked(tmp_path / "run"))
            raise RuntimeError("no")

    def locked(path):
        try:
            RunDirectory.open(path, writing=True).close()
        except CheckpointError:
            return True
        return False

    run = RunDirectory.create(tmp_path / "run", "{}")
    run.add_sink(Sink())
    run.add_sink(Sink())
    run.append({"kind": "a"})
    with pytest.raises(RuntimeError, match="no"):
        run.close()
    run.close()
    assert calls == [True, True]
    assert not locked(tmp_path / "run")


def test_records_reach_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with RunDirectory.create(tmp_path / "run", "{}") as run:
        for steps, loss in ((100, 0.5), (200, 0.25)):
            run.append(
                {
                    "kind": "progress",
                    "environment_steps": steps,
                    "loss": loss,
                    "paused": True,
                    "bottleneck": "actors",
                    "actor_times": {"push": 0.125},
                }
            )
        run.append({"kind": "exit", "role": "actor 0", "reason": "", "seconds": 1.0})
        run.append({"kind": "quantization", "environment_steps": 300, "largest": 0.5, "version": 7})
        events = EventAccumulator(str(run.tensorboard_path)).Reload()
    quantization = ["quantization/largest", "quantization/version"]
    assert sorted(events.Tags()["scalars"]) == ["actor_times/push", "progress/loss", *quantization]
    assert [(event.step, event.value) for event in events.Scalars("quantization/largest")] == [(300, 0.5)]
    assert [(event.step, event.value) for event in events.Scalars("progress/loss")] == [(100, 0.5), (200, 0.25)]
    assert events.Scalars("actor_times/push")[1].value == 0.125


def test_steps_that_a_resumed_run_repeats_replace_those_in_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def append(run, steps):
        run.append({"kind": "progress", "environment_steps": steps, "loss": 0.5})

    with RunDirectory.create(tmp_path / "run", "{}") as run:
        for steps in (100, 200, 300):
            append(run, steps)
    with RunDirectory.open(tmp_path / "run", writing=True) as run:
        run.go_on("{}", 200)
        append(run, 270)
        events = EventAccumulator(str(run.tensorboard_path)).Reload()
    assert [event.step for event in events.Scalars("progress/loss")] == [100, 200, 270]


def test_importing_the_room_brings_neither_torch_nor_matplotlib():
    code = "import sys, headrace.report; print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout.replace("'", '"')) == []
