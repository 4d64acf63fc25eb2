"""The board at several widths, plain lines, and which display is picked."""

import contextlib
import errno
import io
import os
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from headrace.report.display import Heading, PlainDisplay, QuietDisplay, open_display, say
from headrace.report.live import Board, LiveDisplay, sparkline

HEADING = Heading("LunarLander-v3", "dqn", "apex", "runs/LunarLander-v3-dqn-20260102-030405")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def render(progress, *, width=80, evaluations=(), lowest=-200.0, **options):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor", **options)
    with console.capture() as capture:
        console.print(Board(HEADING, progress, list(evaluations), lowest))
    return capture.get()


def plain(text):
    import re

    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_board_is_a_rectangle_of_the_same_height_at_any_width(progress, width):
    snapshot = progress(steps_target=200_000, time_target=600.0, score_target=200.0)
    lines = plain(render(snapshot, width=width, evaluations=[1.0, 2.0])).splitlines()
    assert len(lines) == 16
    assert {cell_len(line) for line in lines} == {min(width - 2, 110)}


def test_the_board_shows_every_number_on_80_columns(progress):
    text = plain(render(progress(steps_target=200_000, time_target=600.0, score_target=200.0)))
    for shown in (
        "LunarLander-v3 · dqn · apex",
        "runs/LunarLander-v3-dqn-20260102-030405",
        "123,000 / 200,000",
        "62%",
        "0:18 left",
        "1:05 / 10:00",
        "75.0 / 200.0",
        "15.0 training",
        "100.0 near-greedy",
        "75.0 evaluated",
        "210.4 best",
        "4,213 steps/s",
        "312 updates/s",
        "450 episodes",
        "98,000 / 100,000 (12.3 MB)",
        "16.0 samples/insert",
        "v400",
        "2.3 updates stale",
        "0.0123 loss",
        "bottleneck learner",
        "2 of 2 actors alive",
        "environment 60%",
        "train 70%",
    ):
        assert shown in text, shown


def test_no_bottleneck_is_shown_for_workers(progress):
    snapshot = progress(role="worker", bottleneck=None)
    text, out = plain(render(snapshot)), io.StringIO()
    PlainDisplay(HEADING, out).update(snapshot)
    assert "2 of 2 workers alive" in text
    assert "bottleneck" not in text + out.getvalue()


def test_only_targets_that_are_set_have_a_bar(progress):
    text = plain(render(progress(score_target=200.0)))
    assert "/ 200.0" in text
    assert "left" not in text
    assert "% " not in text.split("score")[0]


@pytest.mark.parametrize(
    ("score", "share"), [(-200.0, "0%"), (0.0, "50%"), (199.0, "100%"), (250.0, "100%"), (None, "0%")]
)
def test_the_bar_of_the_score_runs_from_the_lowest_seen_to_the_target(progress, score, share):
    text = plain(render(progress(score_target=200.0, evaluation_return=score, mean_return=score)))
    assert share in next(line for line in text.splitlines() if "score" in line).split()


def test_a_run_before_its_first_update_is_shown(progress):
    nothing = dict.fromkeys(
        [
            "mean_return",
            "near_greedy_return",
            "evaluation_return",
            "best_evaluation",
            "samples_per_insert",
            "staleness",
            "loss",
        ]
    )
    text = plain(render(progress(**nothing, steps_per_second=0.0, steps_target=10, actor_times={}, learner_times={})))
    assert "– training" in text
    assert "– loss" in text


def test_missing_actors_and_an_evaluation_are_shown(progress):
    text = plain(render(progress(actors_alive=1, paused=True)))
    assert "1 of 2 actors alive" in text
    assert "evaluating" in text


def test_without_color_segments_differ_by_shade(progress):
    colored, bare = render(progress()), render(progress(), no_color=True)
    assert "█" not in colored
    bar = next(line for line in plain(bare).splitlines() if "actors " in line)
    width = 78 - 4 - 9
    assert bar.count("█") == round(width * 0.6)
    assert bar.count("▓") == round(width * 0.8) - round(width * 0.6)


def test_a_bar_of_times_is_filled_to_the_end(progress):
    shares = {"environment": 1 / 3, "inference": 1 / 3, "pull": 1 / 3}
    bar = next(line for line in plain(render(progress(actor_times=shares))).splitlines() if "actors " in line)
    assert bar.count("━") == 78 - 4 - 9


def test_sparkline():
    assert sparkline([], 5) == ""
    assert sparkline([0.0, 7.0], 5) == "▁█"
    assert sparkline([9.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([3.0, 3.0], 5) == "▄▄"


def test_the_live_display_collects_evaluations_and_restores_the_terminal(progress):
    out = io.StringIO()
    display = LiveDisplay(HEADING, Console(file=out, width=100, force_terminal=True))
    with display:
        display.update(progress(evaluation_return=None))
        display.update(progress(evaluation_return=1.0))
        display.update(progress(evaluation_return=1.0))  # the same evaluation, seen again
        display.update(progress(evaluation_return=1.0, paused=True))
        display.update(progress(evaluation_return=1.0))  # another, with the same result
        display.message("actor 0 [red]died")
        display.update(progress(evaluation_return=8.0))
    text = out.getvalue()
    assert "▁▁█" in plain(text)
    assert "actor 0 [red]died" in plain(text)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # cursor hidden, and shown again


def test_a_message_above_the_board_can_be_copied(progress):
    """No line break at the terminal's width, and no emoji for part of an address."""
    out = io.StringIO()
    told = "headrace actor --server tcp://[2001:db8:a:1::2]:7447 --token-file /home/user/keys/headrace.token --actors 8"
    with LiveDisplay(HEADING, Console(file=out, width=60, force_terminal=True)) as display:
        display.update(progress())
        display.message(told)
    assert told in plain(out.getvalue())


def test_plain_lines_are_printed_every_ten_training_seconds_and_at_the_end(progress):
    out = io.StringIO()
    with PlainDisplay(HEADING, out) as display:
        for seconds in (0.0, 4.0, 9.9, 10.0, 12.0, 14.0):
            display.update(progress(seconds=seconds))
        display.message("actor 0 died")
    lines = out.getvalue().splitlines()
    assert lines[0] == "LunarLander-v3 dqn apex in runs/LunarLander-v3-dqn-20260102-030405"
    assert [line.split()[0] for line in lines[1:]] == ["[0:00]", "[0:10]", "actor", "[0:14]"]


def test_plain_lines_continue_while_the_training_clock_is_paused(progress):
    out, now = io.StringIO(), [0.0]
    display = PlainDisplay(HEADING, out, clock=lambda: now[0])
    for now[0] in (0.0, 30.0, 59.0, 61.0, 100.0):
        display.update(progress(seconds=5.0, paused=True))
    assert [text.count("evaluating") for text in out.getvalue().splitlines()] == [0, 1, 1]


def test_a_plain_line_is_ascii_and_holds_the_numbers(progress):
    out = io.StringIO()
    PlainDisplay(HEADING, out).update(
        progress(steps_target=200_000, evaluation_return=None, actors_alive=1, paused=True)
    )
    assert out.getvalue().splitlines()[1] == (
        "[1:05] 123,000 steps of 200,000, 450 episodes, return 15.0, evaluated -, 4,213 steps/s, 312 updates/s, "
        "16.0 samples/insert, staleness 2.3, bottleneck learner, 1 of 2 actors alive, evaluating"
    )
    assert out.getvalue().isascii()


@pytest.mark.parametrize(
    ("term", "stream", "kind"),
    [("xterm", Terminal(), LiveDisplay), ("dumb", Terminal(), PlainDisplay), ("xterm", io.StringIO(), PlainDisplay)],
)
def test_the_display_suits_the_stream(monkeypatch, term, stream, kind):
    monkeypatch.setenv("TERM", term)
    with open_display(HEADING, stream=stream) as display:
        assert type(display) is kind


def test_a_terminal_that_was_closed_ends_no_run(progress):
    terminal = Terminal()
    display = LiveDisplay(HEADING, Console(file=terminal, force_terminal=True))

    def refuse(_text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    terminal.write = refuse
    display.message("evaluation")
    display.update(progress())
    display.close()


def test_a_closed_pipe_ends_nothing_that_prints_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        say("trial 1: complete")
        PlainDisplay(HEADING, pipe).message("evaluation")
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


def test_a_stream_of_another_encoding_ends_no_run():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    PlainDisplay(HEADING, stream).message("200 ± 3")
    assert stream.buffer.getvalue().endswith(b"200 ? 3\n")


def test_a_stream_that_only_writes_gets_plain_lines() -> None:
    """Such as one that copies to a file what is printed."""
    written: list[str] = []
    stream: Any = SimpleNamespace(write=written.append, flush=lambda: None)
    with open_display(HEADING, stream=stream) as display:
        display.message("text")
    assert type(display) is PlainDisplay
    assert "text" in "".join(written)


@pytest.mark.parametrize("closed", [False, True])
def test_without_a_standard_output_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr("sys.stdout", stream if closed else None)
    with open_display(HEADING) as display:
        assert type(display) is QuietDisplay


def test_quiet_prints_nothing(progress, capsys):
    with open_display(HEADING, quiet=True) as display:
        assert type(display) is QuietDisplay
        display.update(progress())
        display.message("text")
    assert capsys.readouterr() == ("", "")
