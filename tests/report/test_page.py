"""The report: whole, self-contained, and with the numbers given."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest

from headrace import A3C, DQN, R2D2
from headrace.errors import CheckpointError, StorageError
from headrace.report.page import set_ratio, write_report
from headrace.report.run_directory import RunDirectory
from headrace.types import EnvironmentSpec

CONFIG = {
    "environment": "Lander<3>",
    "until_score": 200.0,
    "seed": 7,
    "algorithm": {"name": "dqn", "n_step": 3, "double": True, "hidden": [256, 64], "samples_per_step": 16.0},
    "topology": {"name": "apex", "actors": None, "envs_per_actor": 16},
}
SUMMARY = {
    "environment_steps": 204_000,
    "learner_steps": 13_200,
    "episodes": 1_080,
    "wall_seconds": 120.0,
    "mean_return": 231.44,
    "std_return": 28.2,
    "solved": True,
    "seconds_to_score": 118.0,
    "evaluation_episodes": 100,
    "stopped_by": "score",
    "actor_times": {"environment": 60.0, "inference": 30.0, "push": 10.0},
    "learner_times": {"train": 3.0, "wait": 1.0},
    "samples_per_insert": 15.9,
    "staleness": 2.31,
    "replay_size": 98_765,
    "machine": {"cores": 2, "processor": "Fast & Co"},
}
VOID = {"meta", "br", "img", "path", "use", "rect", "line", "input"}


class Checker(HTMLParser):
    """Asserts that elements are closed in order and that every id is unique."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.words = [], [], [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.ids += [named["id"]] if "id" in named else []
        self.references += [value for key, value in attributes if key in ("src", "href", "xlink:href")]
        self.references += re.findall(r"url\(([^)]*)\)", named.get("style") or "")
        self.references += re.findall(r"url\(([^)]*)\)", named.get("clip-path") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def check(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture
def run(tmp_path, progress):
    with RunDirectory.create(tmp_path / "run", json.dumps(CONFIG)) as directory:
        for step in range(1, 21):
            record = progress(seconds=6.0 * step, environment_steps=10_000 * step, mean_return=10.0 * step).to_record()
            directory.append(record)
        for step in (10, 20):
            directory.append(
                {
                    "kind": "evaluation",
                    "seconds": 6.0 * step,
                    "environment_steps": 10_000 * step,
                    "learner_steps": step,
                    "version": step,
                    "episodes": 10,
                    "mean_return": 11.0 * step,
                    "std_return": 5.0,
                    "min_return": 0.0,
                    "max_return": 300.0,
                    "mean_length": 90.0,
                }
            )
        yield directory


def test_the_page_is_complete_and_self_contained(run, tmp_path):
    run.write_summary(SUMMARY)
    write_report(run, tmp_path / "report.html", b"mp4 bytes")
    page = (tmp_path / "report.html").read_text()
    checker = check(page)
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link", page)
    assert len(checker.ids) == len(set(checker.ids))
    for reference in checker.references:
        assert reference.startswith("data:") or reference.lstrip("'\"#").rstrip("'\"") in checker.ids
    assert f"data:video/mp4;base64,{base64.b64encode(b'mp4 bytes').decode()}" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 8


def test_the_page_holds_the_numbers(run, tmp_path):
    run.write_summary(SUMMARY)
    run.append({"kind": "exit", "role": "actor 1", "reason": "exit code <3>", "seconds": 61.0})
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    words = " ".join(check(page).words)
    for shown in (
        "Lander<3> · dqn · apex",
        "231.4",
        "mean greedy return (± 28.2) of 100 episodes",
        "1:58",
        "204,000",
        "13,200",
        "1,080",
        "2:00",
        "15.9",
        "98,765",
        "2 cores · Fast & Co",
        "1:01: actor 1 ended (exit code <3>)",
        "n_step",
        "256 64",
        "environment steps",
        "training time (h:mm:ss)",
        "samples per insert",
        "staleness (updates)",
        "set: 16",
        "environment steps per second",
        "learner updates per second",
        "share of time",
        "target 200",
    ):
        assert shown in words, shown
    assert "environment <b>60.0%</b>" in page  # 60 of 100 seconds
    assert "wait <b>25.0%</b>" in page  # 1 of 4 seconds
    assert "<video" not in page


def quantization(seconds, largest):
    error = {"version": 3, "rows": 16, "largest": largest, "mean": largest / 10, "largest_output": 20.0}
    sizes = {"bytes": 2_500_000, "parameter_bytes": 10_000_000}
    return {"kind": "quantization", "environment_steps": 5, "seconds": seconds, **error, **sizes}


def precision_record(precision, bits, note):
    record = {"kind": "precision", "environment_steps": 0, "seconds": 0.0}
    return record | {"precision": precision, "communication_bits": bits, "note": note}


def test_a_quantized_run_shows_its_output_errors(run, tmp_path):
    run.append(precision_record("int8", 8, "the fastest <here>"))
    for seconds, largest in ((10.0, 0.5), (20.0, 0.0)):  # of no error a logarithm has no place
        run.append(quantization(seconds, largest))
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    words = " ".join(check(page).words)
    assert "Actors compute in int8; parameters are sent in 8 bits each (the fastest <here>)." in words
    assert "<b>25.0%</b><span>of the parameters&#x27; bytes in full precision: 2.5 MB for 10 MB a publication" in page
    for shown in ("largest error", "mean error", "largest output"):
        assert shown in words
    assert page.count("<svg") == 9
    assert page.index("<h2>Replay ratio") < page.index("<h2>Precision") < page.index("<h2>Throughput")


@pytest.mark.parametrize(("bits", "sent"), [(32, "policies are sent in it"), (4, "parameters are sent in 4 bits each")])
def test_the_chosen_precision_is_shown_before_anything_was_measured(run, tmp_path, bits, sent):
    run.append(precision_record("fp16", bits, ""))
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"<p>Actors compute in fp16; {sent}.</p>" in page
    assert page.count("<svg") == 8


def test_a_full_precision_run_has_no_precision_section(run, tmp_path):
    run.append(precision_record("fp32", 32, ""))
    write_report(run, tmp_path / "report.html")
    assert "<h2>Precision" not in (tmp_path / "report.html").read_text()


def test_a_run_without_summary_shows_its_last_records(run, tmp_path):
    write_report(run, tmp_path / "report.html", video_note="No video: <nothing> draws")
    page = (tmp_path / "report.html").read_text()
    words = " ".join(check(page).words)
    for shown in ("200,000", "220.0", "still running, or killed", "No video: <nothing> draws"):
        assert shown in words
    assert "environment <b>60.0%</b>" in page  # the mean of the snapshots


def test_a_run_with_one_record_is_reported(tmp_path, progress):
    with RunDirectory.create(tmp_path / "run", json.dumps(CONFIG)) as run:
        run.append(progress(samples_per_insert=None, staleness=None, actor_times={}, learner_times={}).to_record())
        write_report(run, tmp_path / "report.html")
    check((tmp_path / "report.html").read_text())


def test_a_run_without_records_is_refused(tmp_path):
    with (
        RunDirectory.create(tmp_path / "run", json.dumps(CONFIG)) as run,
        pytest.raises(CheckpointError, match="no records yet"),
    ):
        write_report(run, tmp_path / "report.html")


def test_a_page_that_cannot_be_written_is_named(run, tmp_path):
    with pytest.raises(StorageError, match=r"can't write .*missing/report.html"):
        write_report(run, tmp_path / "missing" / "report.html")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('{"environment": "X"}', "records that no run writes"),
        ("[]", r"config.json is \[\]; it must be an object"),
        ("{", "config.json is not JSON"),
    ],
)
def test_settings_of_something_else_are_refused(tmp_path, progress, settings, problem):
    with RunDirectory.create(tmp_path / "run", settings) as run:
        run.append(progress().to_record())
        with pytest.raises(CheckpointError, match=problem):
            write_report(run, tmp_path / "report.html")


def test_the_ratio_of_windows_is_that_of_the_table():
    """Of R2D2, whose windows overlap by half."""
    settings = R2D2(samples_per_step=64.0)
    form = settings.table_form(EnvironmentSpec((4,), "float32", 2), 50)
    assert set_ratio(settings.to_record()) == form.samples_per_insert == 32.0
    assert set_ratio(DQN(samples_per_step=16.0).to_record()) == 16.0
    assert set_ratio(A3C().to_record()) is None
