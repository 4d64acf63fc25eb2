"""The benchmark with bsuite's experiments: what is logged, when a run ends, and what is scored."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import bsuite_scores, measure


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The signals that end the run; logs go into DQN's folder below `tmp_path`."""
    pytest.importorskip("bsuite")
    signals: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", signals.append)
    monkeypatch.setattr(bsuite_scores, "_LOGS", tmp_path)
    monkeypatch.setenv("BSUITE_ID", "bandit/0")
    monkeypatch.setenv("BSUITE_FOLDER", str(tmp_path / "dqn"))
    return signals


def pull(arms: list[int], episodes: int) -> None:
    """Plays the bandit in this process, as a run of DQN would."""
    environment = bsuite_scores.logged()
    for episode in range(episodes):
        environment.reset(seed=episode)
        environment.step(arms[episode % len(arms)])
    bsuite_scores._commit_of(bsuite_scores._LOGS / "dqn", "bandit/0").write_text("abc")


def test_a_run_ends_with_its_last_episode(asked: list[int], tmp_path: Path) -> None:
    pull([0], 9_999)
    assert asked == []
    assert bsuite_scores.scores("dqn") == []
    pull([0], 10_000)
    assert asked == [signal.SIGINT]
    (row,) = bsuite_scores.scores("dqn")
    assert (row["experiment"], row["settings"], row["of_settings"]) == ("bandit", 1, 20)
    assert row["runs_of_commits"] == "abc"


def test_without_a_complete_log_nothing_is_written(
    asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: None)
    monkeypatch.setattr(sys, "argv", ["bsuite_scores", "--algorithms", "dqn", "--every", "100", "--only", "bandit"])
    monkeypatch.setattr(bsuite_scores, "origin", lambda: {"commit": "abc"})
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(measure, "origin", dict)
    with pytest.raises(SystemExit, match="2"):
        bsuite_scores.main()
    assert capsys.readouterr().out == "dqn, bandit/0: FAILED\n"
    assert list(tmp_path.rglob("*.csv")) == []


def test_an_experiment_that_bsuite_lacks_is_refused(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bsuite_scores", "--only", "nosuch"])
    with pytest.raises(SystemExit, match="2"):
        bsuite_scores.main()


def test_scores_are_those_of_what_was_played(asked: list[int]) -> None:
    """The 11 arms of a bandit are worth 0 to 1: always the best one has score 1, each as often as the others 0."""
    scores = []
    environment = bsuite_scores.logged()
    worth = [environment.step(arm)[1] for arm in range(11) if environment.reset()]
    for arms in ([worth.index(1.0)], list(range(11))):
        pull(arms, 10_000)
        scores += [row["score"] for row in bsuite_scores.scores("dqn")]
    assert scores == [1.0, pytest.approx(0.0, abs=0.01)]


def test_a_setting_with_a_complete_log_is_not_run_again(asked: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    pull([0], 10_000)
    assert bsuite_scores.measure("dqn", ["bandit/0"])
    assert capsys.readouterr().out == ""


def test_deep_sea_has_a_score_with_the_installed_pandas(asked: list[int], tmp_path: Path) -> None:
    """One of two sizes is solved: most of its episodes find the treasure."""
    folder = tmp_path / "dqn"
    folder.mkdir()
    for number, size, bad in ((0, 10, 200), (20, 50, 10_000)):
        rows = [f"{size * count},{count},0,{size},0.99,{min(bad, count)},1" for count in (1, 100, 1_000, 10_000)]
        columns = "steps,episode,total_return,episode_len,episode_return,total_bad_episodes,denoised_return"
        (folder / f"bsuite_id_-_deep_sea-{number}.csv").write_text("\n".join([columns, *rows]) + "\n")
        bsuite_scores._commit_of(folder, f"deep_sea/{number}").write_text("abc")
    (row,) = bsuite_scores.scores("dqn")
    assert (row["experiment"], row["score"], row["settings"]) == ("deep_sea", 0.5, 2)
