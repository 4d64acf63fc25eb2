"""Pages made from files, without a measurement."""

import csv
import os
import re
import shutil
import signal
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import ConfigError, LaunchError
from headrace.report.run_directory import RunDirectory
from headrace.studies.actorq.acting import CROSSOVER_COLUMNS, CrossoverCase
from headrace.studies.actorq.study import ActorQ, ActorQOptions
from headrace.studies.actorq.training import RUN_COLUMNS
from headrace.studies.base import Measured, Part, Plan
from headrace.studies.catalogue import STUDIES
from headrace.studies.page import table, write_page
from headrace.studies.run import read_origin, render_study, run_plan
from headrace.studies.sheet import Sheet, read_rows

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
HEADING = {
    "in-network": "<th>TCP loopback, 4 synthetic actors</th>",
    "actorq": "<th>Cartpole Balance</th><td>941.22</td>",
    "concurrency": "<th>dqn, serial</th><td>3 of 3</td>",
    "downpour": "<th>16 × 16, TCP, loopback</th>",
}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_published_files_become_a_page_and_stay_as_they_are(study, tmp_path, capsys) -> None:
    folder = tmp_path / "results"
    shutil.copytree(RESULTS / study.name, folder)
    before = {path: path.read_text() for path in folder.glob("*.csv")}
    assert main(["study", study.name, "--render", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == f"wrote {folder / study.name}.html"
    page = (folder / f"{study.name}.html").read_text()
    assert HEADING[study.name] in page
    assert "<h2>How it was measured</h2>" in page
    assert {path: path.read_text() for path in folder.glob("*.csv")} == before
    with (folder / "comparisons.csv").open() as file:
        command = next(csv.DictReader(file))["command"]
    assert f"<code>{command}</code>" in page


def test_what_was_left_out_is_on_the_page_again(stand_in, tmp_path, origin) -> None:
    def fail(case: CrossoverCase) -> dict[str, float]:
        raise LaunchError("it broke")

    study = stand_in(ActorQ, crossover=fail)
    plan = {"crossover": (CrossoverCase(64, 1),), "training": ()}
    known = replace(origin, command="headrace study actorq --scale small --output out")
    with pytest.raises(LaunchError):
        run_plan(study, "small", plan, tmp_path, lambda line: None, known)
    first = (tmp_path / "actorq.html").read_text()
    note = "<li>crossover, width 64, batch 1: failed: it broke</li>"
    assert note in first
    assert read_origin(study, tmp_path) == known
    render_study(study, "small", ActorQOptions(), tmp_path, known)
    assert note in (tmp_path / "actorq.html").read_text()


def test_an_interruption_costs_one_case(stand_in, tmp_path, origin) -> None:
    measured: list[int] = []

    def measure(case: CrossoverCase) -> dict[str, float]:
        if case.batch == interrupted:
            raise KeyboardInterrupt
        measured.append(case.batch)
        return dict.fromkeys(CROSSOVER_COLUMNS, 1.0)

    study = stand_in(ActorQ, crossover=measure)
    plan = {"crossover": (CrossoverCase(64, 1), CrossoverCase(64, 8)), "training": ()}
    interrupted = 8
    with pytest.raises(KeyboardInterrupt):
        run_plan(study, "small", plan, tmp_path, lambda line: None, origin)
    first = (tmp_path / "crossover.csv").read_text()
    assert (tmp_path / "actorq.html").is_file()
    interrupted = 0
    run_plan(study, "small", plan, tmp_path, lambda line: None, origin)
    assert measured == [1, 8]
    assert (tmp_path / "crossover.csv").read_text().startswith(first)


def test_a_case_that_fails_is_said_and_measured_again(stand_in, tmp_path, origin) -> None:
    def measure(case: CrossoverCase) -> dict[str, float]:
        if case.width == broken:
            raise LaunchError("it broke")
        return dict.fromkeys(CROSSOVER_COLUMNS, 1.0) | {"width": case.width}

    study = stand_in(ActorQ, crossover=measure)
    plan = {"crossover": (CrossoverCase(64, 1), CrossoverCase(128, 1)), "training": ()}
    broken = 64
    with pytest.raises(LaunchError, match="1 case failed"):
        run_plan(study, "small", plan, tmp_path, lambda line: None, origin)
    assert "crossover, width 64, batch 1: failed: it broke" in (tmp_path / "actorq.html").read_text()
    broken = 0
    page = run_plan(study, "small", plan, tmp_path, lambda line: None, origin)
    assert [row["width"] for row in read_rows(tmp_path / "crossover.csv")] == [128, 64]
    assert "it broke" not in page.read_text()


def test_the_directory_of_a_run_is_refused(stand_in, tmp_path, origin) -> None:
    with RunDirectory.create(tmp_path, "{}"):
        pass
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=f"^output is {tmp_path}; it must be another directory"):
        run_plan(stand_in(ActorQ), "small", {}, tmp_path, lambda line: None, origin)
    assert sorted(tmp_path.rglob("*")) == before


def measure_slowly(case: CrossoverCase, folder: Path) -> Measured:
    """Takes the place of a simulated case, in a separate process; fails for a batch of 2."""
    del folder
    if case.batch == 2:
        raise LaunchError("it broke")
    return Measured(dict.fromkeys(CROSSOVER_COLUMNS, float(os.getpid())))


def test_simulated_cases_are_measured_by_other_processes(tmp_path, origin) -> None:
    study = ActorQ()
    study.parts = (
        Part("crossover", CROSSOVER_COLUMNS, measure_slowly, simulated=True),
        *(part for part in ActorQ.parts if part.name != "crossover"),
    )
    plan = {"crossover": tuple(CrossoverCase(64, batch) for batch in range(1, 6)), "training": ()}
    said: list[str] = []
    with pytest.raises(LaunchError, match=f"^1 case failed; .* to repeat it: {origin.command}$"):
        run_plan(study, "small", plan, tmp_path, said.append, origin)
    rows = read_rows(tmp_path / "crossover.csv", CROSSOVER_COLUMNS)
    assert {row["case"] for row in rows} == {case.name for case in plan["crossover"] if case.batch != 2}
    assert float(os.getpid()) not in {row[CROSSOVER_COLUMNS[0]] for row in rows}
    assert sum("it broke" in line for line in said) == 1
    Sheet(tmp_path / "training.csv", origin, RUN_COLUMNS).put("a", [dict.fromkeys(RUN_COLUMNS, 1.0)])  # not in the plan
    another = replace(origin, machine="another machine")  # which changes no figure of a simulated case
    with pytest.raises(LaunchError, match="1 case failed"):
        run_plan(study, "small", plan, tmp_path, said.append, another)
    with pytest.raises(ConfigError, match="measurements of another machine"):
        run_plan(ActorQ(), "small", plan, tmp_path, said.append, another)


def measure_or_die(case: CrossoverCase, folder: Path) -> Measured:
    del folder
    if case.batch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return Measured(dict.fromkeys(CROSSOVER_COLUMNS, 1.0))


def test_a_killed_process_leaves_its_cases_to_the_next_run(tmp_path, origin) -> None:
    study = ActorQ()
    study.parts = (
        Part("crossover", CROSSOVER_COLUMNS, measure_or_die, simulated=True),
        *(part for part in ActorQ.parts if part.name != "crossover"),
    )
    plan = {"crossover": tuple(CrossoverCase(64, batch) for batch in range(1, 6)), "training": ()}
    said: list[str] = []
    with pytest.raises(LaunchError, match=r"^\d cases? failed; .* to repeat"):
        run_plan(study, "small", plan, tmp_path, said.append, origin)
    rows = read_rows(tmp_path / "crossover.csv", CROSSOVER_COLUMNS)
    assert len(rows) + sum("was killed; memory may have run out" in line for line in said) == 5
    assert any(line.startswith("crossover") and "batch 2: failed" in line for line in said)


def test_a_page_shows_the_rows_of_all_commands(stand_in, tmp_path, origin) -> None:
    study = stand_in(ActorQ, crossover=lambda case: dict.fromkeys(CROSSOVER_COLUMNS, 1.0))

    def plan_of(command: str) -> Plan:
        return {"crossover": (CrossoverCase(65, int(command.split()[4])),), "training": ()}

    for batch in (3, 5):
        known = replace(origin, command=f"headrace study actorq --batch {batch} --scale small --output out")
        run_plan(study, "small", plan_of(known.command), tmp_path, lambda line: None, known)
    for given, hidden in ((plan_of, False), (lambda command: plan_of("headrace study actorq --batch 3"), True)):
        render_study(study, "small", ActorQOptions(), tmp_path, known, given)
        page = (tmp_path / "actorq.html").read_text()
        assert ("1 row of another scale" in page) is hidden


def test_a_case_that_both_scales_have_is_shown_on_the_page_of_either(stand_in, tmp_path, origin) -> None:
    study = stand_in(ActorQ, crossover=lambda case: dict.fromkeys(CROSSOVER_COLUMNS, 1.0))

    def plan_of(command: str) -> Plan:
        scale = command.split()[6]
        both, own = CrossoverCase(65, int(command.split()[4])), CrossoverCase(66, len(scale))
        return {"crossover": (both, own), "training": ()}

    for batch, scale in ((3, "small"), (5, "full")):
        known = replace(origin, command=f"headrace study actorq --batch {batch} --scale {scale} --output out")
        run_plan(study, scale, plan_of(known.command), tmp_path, lambda line: None, known)
    render_study(study, "full", ActorQOptions(), tmp_path, known, plan_of)
    assert "crossover: 1 row of another scale" in (tmp_path / "actorq.html").read_text()  # small's own


def test_rows_that_a_page_does_not_show_are_counted(stand_in, tmp_path, origin) -> None:
    study = stand_in(ActorQ, crossover=lambda case: dict.fromkeys(CROSSOVER_COLUMNS, 1.0))
    known = replace(origin, command="headrace study actorq --scale small --output out")
    run_plan(study, "small", {"crossover": (CrossoverCase(65, 1),), "training": ()}, tmp_path, lambda line: None, known)
    for scale, hidden in (("small", False), ("full", True)):
        render_study(study, scale, ActorQOptions(), tmp_path, known)
        page = (tmp_path / "actorq.html").read_text()
        note = "<li>crossover: 1 row of another scale or machine, or whose settings have changed since</li>"
        assert (note in page) is hidden


def test_a_part_whose_settings_have_all_changed_is_marked(stand_in, tmp_path, origin) -> None:
    study = stand_in(ActorQ, crossover=lambda case: dict.fromkeys(CROSSOVER_COLUMNS, 1.0))
    known = replace(origin, command="headrace study actorq --scale small --output out")
    plan = {"crossover": (CrossoverCase(65, 1),), "training": ()}
    for now, marked in ((plan, False), ({**plan, "crossover": (CrossoverCase(66, 1),)}, True)):
        run_plan(study, "small", plan, tmp_path, lambda line: None, known)
        render_study(study, "small", ActorQOptions(), tmp_path, known, lambda command, now=now: now)
        page = (tmp_path / "actorq.html").read_text()
        assert ("<li>crossover: measured with settings that have changed since</li>" in page) is marked


@pytest.mark.parametrize("holds", ["nothing", "another study's"])
def test_a_folder_without_the_study_s_files_is_one_line(tmp_path, capsys, holds: str) -> None:
    folder = tmp_path / "nothing" if holds == "nothing" else RESULTS / "actorq"
    assert main(["study", "downpour", "--render", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headrace: error: {folder} ")
    assert error.count("\n") == 1


def test_a_damaged_command_is_one_line(tmp_path, capsys) -> None:
    folder = tmp_path / "results"
    shutil.copytree(RESULTS / "downpour", folder)
    for path in folder.glob("*.csv"):
        path.write_text(path.read_text().replace("headrace study downpour ", "headrace study downpour 'open "))
    assert main(["study", "downpour", "--render", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("headrace: error: command is ")
    assert error.count("\n") == 1


def test_rendering_takes_no_other_option(tmp_path, capsys) -> None:
    assert main(["study", "downpour", "--scale", "full", "--render", str(tmp_path)]) == 2
    assert "--render" in capsys.readouterr().err


def test_figures_are_not_broken_and_long_texts_are() -> None:
    line = table(("", "figure"), [("a", "12,345"), ("b", "x" * 33)])
    assert "<td>12,345</td>" in line
    assert f'<td class="text">{"x" * 33}</td>' in line
    style = (files("headrace.report") / "page.css").read_text()
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", style)
    assert re.search(r"\.scroll th, \.scroll td \{[^}]*white-space: nowrap; overflow-wrap: normal", style)


def test_a_section_is_left_out_if_its_blocks_are_empty(tmp_path, origin) -> None:
    some = "## Some\nOf {count} < 3.\n\n![A caption](one)\n\n![Another](two)\n"
    text = f"# Title\n\n![](tiles)\n\n{some}\n## None\n![](two)\n"
    blocks = {"tiles": "<b>1</b>", "one": "<table>1</table>", "two": "", "count": "<2>"}
    write_page(tmp_path / "page.html", text, blocks, [], [], origin)
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Title</h1>" in page
    assert '<h2>Some</h2><p class="soft">Of &lt;2&gt; &lt; 3.</p>' in page
    assert "<figure><figcaption>A caption</figcaption><table>1</table></figure>" in page
    assert "Another" not in page
    assert "<h2>None</h2>" not in page
