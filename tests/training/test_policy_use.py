"""Frames of a trained policy: one whole episode; its environment is closed in any case."""

import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.environments.toy import Corridor
from headrace.errors import EnvironmentFault
from headrace.training import Result, evaluate, record_frames

from .conftest import Train


class Counted(Corridor):
    """A corridor that counts those that can draw and are open."""

    open_ones = 0

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        Counted.open_ones += render_mode is not None

    def close(self) -> None:
        Counted.open_ones -= self.render_mode is not None


@pytest.fixture
def trained(train: Train, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run of a few steps, which leaves no environment open."""
    module = types.ModuleType("own")
    module.Counted = Counted  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own", module)
    monkeypatch.setattr(Counted, "open_ones", 0)
    return train("serial", environment="own:Counted", steps=20, final_evaluation_episodes=0)


def test_an_episode_is_recorded_from_its_first_to_its_last_frame(trained: Result) -> None:
    (length,) = evaluate(trained.run, episodes=1).lengths
    with record_frames(trained.run) as (frames, fps):
        assert Counted.open_ones == 1
        assert len(list(frames)) == length + 1
    assert (Counted.open_ones, fps) == (0, 10)
    with record_frames(trained.run, max_steps=3) as (frames, _):
        assert len(list(frames)) == 3
    assert Counted.open_ones == 0


@pytest.mark.parametrize(("given", "rate"), [(None, 30.0), (29.97, 29.97), (np.float32(0.5), 0.5)])
def test_frames_have_the_environment_s_rate(
    trained: Result, monkeypatch: pytest.MonkeyPatch, given: Any, rate: float
) -> None:
    monkeypatch.setattr(Counted, "metadata", {"render_modes": ["rgb_array"], "render_fps": given})
    with record_frames(trained.run) as (_, fps):
        assert fps == rate


@pytest.mark.parametrize("given", ["fast", 0, -1, math.inf, math.nan])
def test_a_rate_that_is_none_is_refused(trained: Result, monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    monkeypatch.setattr(Counted, "metadata", {"render_modes": ["rgb_array"], "render_fps": given})
    with (
        pytest.raises(EnvironmentFault, match=f"declares render_fps '?{given}'?; 0.01 or more is required"),
        record_frames(trained.run),
    ):
        pass
    assert Counted.open_ones == 0


@pytest.mark.parametrize("recorded", [0, 1])
def test_the_environment_is_closed_after_an_error(trained: Result, recorded: int) -> None:
    def fail() -> None:
        with record_frames(trained.run) as (frames, _):
            for _ in range(recorded):
                next(frames)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert Counted.open_ones == 0


@pytest.mark.parametrize("method", ["reset", "step", "render"])
def test_what_the_environment_raises_is_one_line(
    trained: Result, method: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Such as Gymnasium's DependencyNotInstalled where pygame is missing, which only render() finds out."""

    def fail(*_: object, **__: object) -> None:
        raise ImportError("pygame is not installed")

    monkeypatch.setattr(Counted, method, fail)
    with (
        pytest.raises(EnvironmentFault, match="own:Counted failed: ImportError: pygame is not installed"),
        record_frames(trained.run) as (frames, _),
    ):
        list(frames)
    assert Counted.open_ones == 0
    if method == "render":
        pytest.importorskip("imageio_ffmpeg")
        assert main(["report", str(trained.path), "--output", str(tmp_path / "report.html")]) == 0
        assert "No video: environment own:Counted failed" in capsys.readouterr().out


def test_the_environment_is_closed_if_it_is_not_the_run_s(trained: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Corridor.__init__, "__defaults__", (None, 9, 40))
    with pytest.raises(EnvironmentFault, match=r"\[9\]"), record_frames(trained.run):
        pass
    assert Counted.open_ones == 0


def test_evaluate_closes_the_environment_of_its_video(
    trained: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["evaluate", str(trained.path), "--episodes", "1", "--video", str(tmp_path / "video.gif")]
    assert main(command) == 0
    assert Counted.open_ones == 0
    monkeypatch.setattr(Counted, "step", lambda self, action: 1 / 0)
    assert main(command) == 2
    assert Counted.open_ones == 0
