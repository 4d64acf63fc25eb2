"""What the page knows of the runs of a folder."""

import fcntl
import os

import pytest

from headrace.dashboard.runs import RunsFolder, _number


@pytest.fixture
def folder(tmp_path, write_run):
    return RunsFolder(tmp_path / "runs")


def test_runs_appear_change_and_disappear(folder, write_run):
    assert folder.cards() == []
    run = write_run("study/trial-1")
    run.progress(5.0, evaluation_return=11.0)
    (card,) = folder.cards()
    assert (card["name"], card["environment"], card["algorithm"]) == ("study/trial-1", "Lander-v3", "dqn")
    assert (card["steps"], card["evaluation_return"]) == (5_000, 11.0)
    run.progress(6.0)
    assert folder.cards()[0]["steps"] == 6_000
    run.path.rename(run.path.with_name("trial-2"))
    assert [card["name"] for card in folder.cards()] == ["study/trial-2"]
    assert folder.update("study/trial-1", None) is None


def test_a_directory_that_can_not_be_searched_hides_no_other(folder, write_run, monkeypatch):
    for name in ("a", "closed", "z"):
        write_run(name)

    def refusing(original):
        def refuse(path, **options):
            if "closed" in str(path):
                raise PermissionError(path)
            return original(path, **options)

        return refuse

    monkeypatch.setattr(os, "stat", refusing(os.stat))
    monkeypatch.setattr(os, "lstat", refusing(os.lstat))
    assert {card["name"] for card in folder.cards()} == {"a", "z"}


def test_a_scan_that_fails_loses_no_run(folder, write_run, monkeypatch):
    write_run("one")
    assert len(folder.cards()) == 1
    with monkeypatch.context() as patch:
        patch.setattr("headrace.dashboard.runs._stamp", lambda _path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            folder.cards()
    folder._due = float("inf")
    assert [card["name"] for card in folder.cards()] == ["one"]


def test_the_folder_may_be_a_run(tmp_path, write_run):
    write_run("one").progress(1.0)
    assert [card["name"] for card in RunsFolder(tmp_path / "runs/one").cards()] == ["."]


def test_a_run_is_running_while_a_process_holds_its_lock(folder, write_run):
    run = write_run("one")
    run.progress(1.0)
    os.utime(run.path / "metrics.jsonl", (0, 0))
    assert folder.cards()[0]["status"] == "ended"
    run.summary()
    assert folder.cards()[0]["status"] == "finished"
    with (run.path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        assert folder.cards()[0]["status"] == "running"
    assert folder.cards()[0]["status"] == "finished"


def test_a_run_of_another_machine_is_running_while_it_writes(folder, write_run):
    write_run("one").progress(1.0)
    assert folder.cards()[0]["status"] == "running"


def test_updates_hold_only_what_is_new(folder, write_run):
    run = write_run("one")
    run.progress(1.0)
    position, first = folder.update("one", None)
    assert first["reset"]
    assert first["config"]["seed"] == 7
    assert first["series"]["seconds"] == [1.0]
    assert first["series"]["actor_times.blocked"] == [0.75]
    run.progress(2.0)
    _, second = folder.update("one", position)
    assert not second["reset"]
    assert second["series"]["seconds"] == [2.0]
    assert "config" not in second


def test_a_resumed_run_is_sent_again_without_what_it_repeats(folder, write_run):
    run = write_run("one")
    for second in (1.0, 2.0, 3.0):
        run.progress(second)
        run.append("evaluation", second, mean_return=second)
    position, _ = folder.update("one", None)
    run.append("resume", 2.0, generation=1)
    run.progress(2.5)
    _, message = folder.update("one", position)
    assert message["reset"]
    assert message["series"]["seconds"] == [1.0, 2.0, 2.5]
    assert [each["mean_return"] for each in message["state"]["evaluations"]] == [1.0, 2.0]


def test_what_a_long_run_has_reached_is_shown_before_all_of_it_is_read(folder, write_run, monkeypatch):
    run = write_run("one")
    for seconds in range(100):
        run.progress(float(seconds))
    monkeypatch.setattr("headrace.dashboard.records._PART_BYTES", 4096)
    _, message = folder.update("one", None)
    assert len(message["series"]["seconds"]) < 50
    assert message["state"]["now"]["seconds"] == 99.0


def test_the_best_evaluation_may_be_one_after_the_last_progress(folder, write_run):
    run = write_run("one")
    assert folder.update("one", None)[1]["state"]["best_evaluation"] is None
    run.progress(1.0, best_evaluation=137.5)  # of evaluations that are no longer listed, perhaps
    run.append("evaluation", 2.0, mean_return=100.0)
    assert folder.update("one", None)[1]["state"]["best_evaluation"] == 137.5
    run.append("evaluation", 3.0, mean_return=500.0)
    assert folder.update("one", None)[1]["state"]["best_evaluation"] == 500.0


def test_processes_have_their_places_and_deaths(folder, write_run):
    run = write_run("one")
    (run.path / "logs").mkdir()
    for name in ("actor-0", "actor-10", "actor-2"):
        (run.path / f"logs/{name}.log").touch()
    run.append("place", 1.0, role="actor 2", place="node a")
    run.append("place", 1.0, role="evaluator 0", place="node a")
    run.append("exit", 2.0, role="actor 0", reason="exit code 1")
    run.append("exit", 3.0, role="actor 0", reason="exit code 1")
    _, message = folder.update("one", None)
    assert message["state"]["processes"] == [
        {"role": "actor 0", "place": None, "deaths": 2},
        {"role": "actor 2", "place": "node a", "deaths": 0},
        {"role": "actor 10", "place": None, "deaths": 0},
        {"role": "evaluator 0", "place": "node a", "deaths": 0},
    ]
    assert message["state"]["hosts"] == {"node a": 2}
    assert [event["kind"] for event in message["state"]["events"]] == ["place", "place", "exit", "exit"]
    run.append("resume", 4.0)
    run.append("place", 4.0, role="actor 2", place="node b")
    assert folder.update("one", None)[1]["state"]["hosts"] == {"node b": 1}


def test_names_from_outside_are_not_made_into_paths(folder, write_run, tmp_path):
    write_run("one")
    outside = tmp_path / "outside"
    (tmp_path / "runs/one").rename(outside)
    (tmp_path / "runs/link").symlink_to(outside)
    for name in ("../outside", "link", str(outside), "", "one/../../outside", "\0"):
        assert folder.update(name, None) is None
        assert folder.video(name) is None
    assert folder.cards() == []


def test_links_in_a_run_are_not_followed(folder, write_run, tmp_path):
    run = write_run("one")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "actor-0.log").touch()
    (run.path / "logs").symlink_to(outside)
    with (outside / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        (run.path / ".lock").symlink_to(outside / "lock")
        assert folder.update("one", None)[1]["state"]["processes"] == []
        assert folder.cards()[0]["status"] == "ended"
    write_run("two").path.joinpath("config.json").rename(outside / "config.json")
    (tmp_path / "runs/two/config.json").symlink_to(outside / "config.json")
    assert [card["name"] for card in folder.cards()] == ["one"]


def test_fifos_in_a_run_are_not_waited_for(folder, write_run):
    run = write_run("one")
    for name in ("metrics.jsonl", "summary.json", ".lock"):
        os.mkfifo(run.path / name)
    assert folder.update("one", None)[1]["series"]["seconds"] == []
    os.mkfifo(write_run("two").path / "logs")
    assert folder.update("two", None)[1]["state"]["processes"] == []


def test_a_lock_that_holds_much_is_not_read_whole(folder, write_run):
    run = write_run("one")
    with (run.path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(" " * 64 + f"{os.getpid()}\n")
        lock.flush()
        assert folder.cards()[0]["status"] == "ended"


def test_records_with_values_of_other_types_do_no_harm(folder, write_run):
    run = write_run("one")
    (run.path / "config.json").write_text("[]")
    run.append_text('{"kind": "progress", "seconds": "x"}\n{"kind": "evaluation"}\n')
    run.progress(1.0, mean_return="high", actor_times=7, steps_per_second=True)
    (run.path / "summary.json").write_text('{"stopped_by": {}')
    _, message = folder.update("one", None)
    assert message["series"]["mean_return"] == [None]
    assert message["series"]["steps_per_second"] == [None]
    assert folder.cards()[0]["environment"] == "?"


def test_numbers_beyond_a_float_are_left_out(folder, write_run):
    run = write_run("one")
    run.progress(1.0, mean_return=10**400, environment_steps=-(10**400), loss=1e308)
    run.progress(10**400)
    run.progress(2.0, mean_return=3.0)
    _, message = folder.update("one", None)
    assert message["series"]["seconds"] == [1.0, 2.0]
    assert message["series"]["mean_return"] == [None, 3.0]
    assert message["series"]["loss"][0] == 1e308
    assert message["state"]["now"]["seconds"] == 2.0
    run.progress(3.0, environment_steps=10**400)
    assert folder.cards()[0]["steps"] is None
    assert _number(10**400) is None
    assert _number(float("nan")) is None
    assert _number(-(10**300)) == -(10**300)


def test_the_newest_video_is_shown(folder, write_run):
    run = write_run("one")
    for age, name in ((2, "old.mp4"), (1, "new.gif"), (0, ".draft.tmp.mp4")):
        (run.path / name).write_bytes(b"x")
        os.utime(run.path / name, (1_000 - age, 1_000 - age))
    assert folder.update("one", None)[1]["state"]["video"] == {"name": "new.gif", "time": 999}
    with folder.video("one") as file:
        assert file.name == str(run.path / "new.gif")


def test_a_video_that_is_replaced_by_a_link_is_none(folder, write_run, tmp_path, monkeypatch):
    run = write_run("one")
    (tmp_path / "secret").write_text("secret")
    (run.path / "policy.mp4").symlink_to(tmp_path / "secret")
    assert folder.video("one") is None
    for name in ("policy.mp4", "gone.mp4"):
        monkeypatch.setattr("headrace.dashboard.runs._newest_video", lambda path, name=name: (1.0, path / name))
        assert folder.video("one") is None
