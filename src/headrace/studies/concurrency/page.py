"""The page of the study: what was published beside what was measured here."""

from collections.abc import Callable, Sequence
from html import escape
from math import nan

from headrace.report.document import plot_row
from headrace.studies.base import Page, Results
from headrace.studies.comparisons import Comparison
from headrace.studies.concurrency.comparisons import PLANNING, Group, groups_of, of, reached, sequential
from headrace.studies.concurrency.published import COUNTERPARTS, NOTES, lunar_lander
from headrace.studies.concurrency.tables import (
    ablation_table,
    ablation_text,
    atari_table,
    faults_table,
    one_worker,
    published_table,
    requirements_table,
    runs_table,
    sharing_table,
    speedup,
    throughput_table,
    verdict,
)
from headrace.studies.page import figure_text, note, note_list, worst_tiles
from headrace.studies.plots import Line, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import distinct, middle

__all__ = ["present"]

_COLOURS = {"lock": "c2", "hogwild": "c1", "parameter-server": "c3", "ad-psgd": "c5", "apex": "c4"}
_METHOD = (
    "Every run is one of headrace train with the environment's preset, in a process of its own. Each worker is a "
    "process with one thread; the learner of Dyna-Q, beside an actor and planners, has as many threads as there "
    "are cores but one. Seconds are those of the training clock. It stands still in evaluations, except in runs "
    "of several processes that leave a core to spare: there they go on beside it. It runs from before the first "
    "worker is started, while a serial run has torch, environments and network made before: that part of the start "
    "is on the workers' clock alone. The column start says when all were at work and updates had begun, by records "
    "a second apart; of both kinds of run that includes what fills the replay before the first update. The "
    "speed-up is shown with it and without.",
    "The target is 200 in the mean of 100 greedy episodes, asked for when 10 reach it; that evaluation is as the "
    "others are. The policy is looked at every second of workers' training and every 10,000 steps of serial runs, "
    "which are about a second; in the ablation every 5,000 steps. A run that is not there within its time limit "
    "is a row with solved = no, and counts as one without end. Environment steps and episodes are of all workers. "
    "Each figure is defined in README.md of headrace/studies/concurrency.",
)


def present(results: Results) -> Page:
    """The page of these rows."""
    comparisons = results.comparisons
    runs, throughput, ablation, faults = (results.rows[part] for part in ("runs", "throughput", "ablation", "faults"))
    sections = (
        ("What is required", _required(comparisons)),
        ("Published and here", _published(runs)),
        ("LunarLander to 200", _plots(runs) + runs_table(runs) if runs else ""),
        ("Throughput", _throughput(throughput)),
        ("Staleness", sharing_table(runs or throughput)),
        ("Dyna-Q: is it planning?", ablation_table(ablation) + note_list(ablation_text(ablation, comparisons))),
        ("A quarter of the workers killed", faults_table(faults)),
    )
    return Page("Workers that act and learn", _tiles(comparisons), sections, _METHOD)


def _tiles(comparisons: Sequence[Comparison]) -> str:
    """What is required, each where it is met worst."""
    return worst_tiles(comparisons, (
        ("updates/s, 2 workers / 1", "updates per second of 2 workers over 1", figure_text),
        ("runs that reach the target (%)", "% of the runs reach the target", figure_text),
        ("samples per step, off what is set (%)", "% is the replay ratio off what is set, at most", figure_text),
        (PLANNING, "real steps without planning over Dyna-Q's", figure_text),
        ("mean score, a quarter of the workers killed on the way", "mean score, a quarter of workers killed",
         figure_text),
    ))  # fmt: skip


def _required(comparisons: Sequence[Comparison]) -> str:
    judged = verdict(comparisons)
    return f"<p>{escape(judged)}</p>{requirements_table(comparisons)}" if judged else ""


def _published(runs: Rows) -> str:
    if not runs:
        return ""
    plots = []
    published = lunar_lander()
    for name, (variant, topology) in COUNTERPARTS.items():
        theirs = {count: said.speedup for (each, count), said in published.items() if each == name and said.speedup}
        counts = sorted({count for each, where, count in groups_of(runs) if (each, where) == (variant, topology)})
        if not (theirs and counts):
            continue
        places = sorted({*theirs, *counts})
        groups = [(variant, topology, count) for count in places]
        lines = {
            "published, over 1 process": Line([theirs.get(count) or nan for count in places], "c7", dashed=True),
            f"ours, {topology}, over 1 worker": Line(
                [speedup(runs, group, one_worker(runs, group)) for group in groups], "c3"
            ),
            f"ours, {topology}, over serial": Line(
                [speedup(runs, group, sequential(runs, variant)) for group in groups], "c1"
            ),
            "as many as workers": Line([float(count) for count in places], "c6", dashed=True),
        }
        plots.append(draw_lines(f"published-{name}", "workers", f"{variant}: speed-up to 200", places, lines))
    return plot_row(plots) + published_table(runs) + note_list(NOTES) + atari_table(runs)


def _plots(runs: Rows) -> str:
    """Speed-up, environment steps and time of an episode over the number of workers, a plot of each algorithm."""
    plots = []
    for variant in distinct(runs, "variant"):
        figures: dict[str, Callable[[Group], float]] = {
            "speed-up against serial": lambda group: speedup(runs, group, sequential(runs, group[0])),
            "environment steps to 200": lambda group: reached(of(runs, group), "steps_to_score"),
            "seconds per episode": lambda group: middle(of(runs, group), "seconds_per_episode"),
        }
        for label, value in figures.items():
            plots += _over_workers(runs, variant, label, value)
    return plot_row(plots)


def _throughput(rows: Rows) -> str:
    plots = [
        plot
        for variant in distinct(rows, "variant")
        for plot in _over_workers(
            rows, variant, "updates/s", lambda group: middle(of(rows, group), "updates_per_second")
        )
    ]
    about = note(
        "Rates count from 3 s after the start. Where many workers have few cores, the start takes most of the 20 s; a "
        "dash says that fewer than two records were left."
    )
    return plot_row(plots) + throughput_table(rows) + about if rows else ""


def _over_workers(rows: Rows, variant: str, label: str, value: Callable[[Group], float]) -> list[str]:
    """A figure over the number of workers, a line of each topology; none where there are no two numbers of them."""
    groups = [group for group in groups_of(rows) if group[0] == variant and group[1] != "serial"]
    counts = sorted({count for _, _, count in groups})
    if len(counts) < 2:
        return []
    lines = {
        topology: Line(
            [value(group) if (group := (variant, topology, count)) in groups else nan for count in counts],
            _COLOURS[topology],
        )
        for topology in dict.fromkeys(topology for _, topology, _ in groups)
    }  # fmt: skip
    return [draw_lines(f"{variant}-{label}", "workers", f"{variant}: {label}", counts, lines)]
