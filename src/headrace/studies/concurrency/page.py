"""The page of the study: published and measured figures side by side."""

from collections.abc import Callable, Sequence
from html import escape
from math import inf, isfinite, nan

from headrace.gradients.measured import STALENESS
from headrace.report.document import plot_row, share_bar
from headrace.studies.base import Page, Results
from headrace.studies.comparisons import Comparison
from headrace.studies.concurrency.comparisons import (
    PLANNING,
    Group,
    best_sequential,
    groups_of,
    of,
    reached,
    sequential,
    spread_of,
    started,
    to_target,
)
from headrace.studies.concurrency.published import COUNTERPARTS, NOTES, atari, lunar_lander
from headrace.studies.page import (
    Columns,
    bars,
    cells,
    figure_text,
    note,
    note_list,
    number_of,
    summary_table,
    table,
    worst_tiles,
)
from headrace.studies.plots import Line, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, mean, middle

__all__ = ["ablation_text", "present", "published_table", "runs_table", "speedup", "verdict"]

_COLORS = {"lock": "c2", "hogwild": "c1", "parameter-server": "c3", "ad-psgd": "c5", "apex": "c4"}
_METHOD = (
    "Every run uses headrace train with the environment's preset, in a separate process. Workers have one thread each; "
    "the learner of Dyna-Q has one thread less than there are cores. Seconds are those of the training clock. "
    "Evaluations pause it, unless a run of several processes leaves a core idle. The workers' clock starts before the "
    "first worker does, the clock of a serial run after torch, environments and network are ready. Start is the time "
    "at which all processes were at work and updates had begun, including the filling of the replay, from records one "
    "second apart. The speed-up is shown with and without it.",
    "The target is a mean of 200 over 100 greedy episodes, which are played when 10 episodes reach it. The policy is "
    "evaluated every second of the workers' training and every 10,000 steps of serial runs, about a second; in the "
    "ablation every 5,000 steps. A run that misses the target in its time has solved = no and counts as infinite. "
    "Steps and episodes are totals of all workers. README.md of headrace/studies/concurrency defines each figure.",
)
_WORDS = {"holds": "met", "MISSED": "not met", "undecided": "undecided"}
_OFF, _AS_MANY = "dyna-q, no planning", "dqn, dyna-q's updates"
_WHY_NO_GAIN = (
    "Why the gain is not larger (docs/algorithms/dyna_q.md): the model predicts flight well, but not leg contacts, "
    "impacts and the lander coming to rest. These are jumps that a single state hardly predicts, and the reward of "
    "±100 depends on them. Much of Dyna-Q's gain over the preset's DQN comes from the replay ratio, which DQN can "
    "use too."
)
_SHARE_COLORS = ("c1", "c4", "c3", "c2", "c7", "c5", "c6", "ink")


def present(results: Results) -> Page:
    """The page of these rows."""
    comparisons = results.comparisons
    runs, throughput, ablation, faults = (results.rows[part] for part in ("runs", "throughput", "ablation", "faults"))
    sections = (
        ("What is required", _required(comparisons)),
        ("Published and here", _published(runs)),
        ("LunarLander to 200", _plots(runs) + runs_table(runs) if runs else ""),
        ("Throughput", _throughput(throughput)),
        ("Staleness", _sharing_table(runs or throughput)),
        ("Dyna-Q: is it planning?", _ablation_table(ablation) + note_list(ablation_text(ablation, comparisons))),
        ("A quarter of the workers killed", _faults_table(faults)),
    )
    return Page("Workers that act and learn", _tiles(comparisons), sections, _METHOD)


def _tiles(comparisons: Sequence[Comparison]) -> str:
    """The required figures, each with its worst value."""
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
    lines = [
        (each.figure, each.where, figure_text(each.ours), each.required, _WORDS[each.verdict], each.note)
        for each in comparisons
        if each.verdict
    ]
    header = ("", "where", "ours", "required", "", "")
    return f"<p>{escape(judged)}</p>{table(header, lines)}" if judged else ""


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
                [speedup(runs, group, _one_worker(runs, group)) for group in groups], "c3"
            ),
            f"ours, {topology}, over serial": Line(
                [speedup(runs, group, sequential(runs, variant)) for group in groups], "c1"
            ),
            "as many as workers": Line([float(count) for count in places], "c6", dashed=True),
        }
        plots.append(draw_lines(f"published-{name}", "workers", f"{variant}: speed-up to 200", places, lines))
    return plot_row(plots) + published_table(runs) + note_list(NOTES) + _atari_table(runs)


def _plots(runs: Rows) -> str:
    """Speed-up, environment steps and time per episode over the number of workers, one plot per algorithm."""
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
    plots: list[str] = []
    for variant in distinct(rows, "variant"):
        plots += _over_workers(rows, variant, "updates/s", lambda group: middle(of(rows, group), "updates_per_second"))
    about = note("Rates count from 3 s after the start; a dash means that fewer than two records were left.")
    return plot_row(plots) + _throughput_table(rows) + about if rows else ""


def _over_workers(rows: Rows, variant: str, label: str, value: Callable[[Group], float]) -> list[str]:
    """A figure over the number of workers, one line per topology; empty without two numbers of workers."""
    groups = [group for group in groups_of(rows) if group[0] == variant and group[1] != "serial"]
    counts = sorted({count for _, _, count in groups})
    if len(counts) < 2:
        return []
    lines = {
        topology: Line(
            [value(group) if (group := (variant, topology, count)) in groups else nan for count in counts],
            _COLORS[topology],
        )
        for topology in dict.fromkeys(topology for _, topology, _ in groups)
    }  # fmt: skip
    return [draw_lines(f"{variant}-{label}", "workers", f"{variant}: {label}", counts, lines)]


def verdict(comparisons: Sequence[Comparison]) -> str:
    """The requirements that are met and those that are not, in one sentence."""
    judged = [each for each in comparisons if each.verdict]
    if not judged:
        return ""
    met = [each for each in judged if each.verdict == "holds"]
    parts = [f"Of {len(judged)} requirements that were measured, {len(met)} are met"]
    for missed in ("MISSED", "undecided"):
        these = [f"{each.figure} ({each.where})" for each in judged if each.verdict == missed]
        parts += [f"{_WORDS[missed]}: {'; '.join(these)}"] if these else []
    return f"{'; '.join(parts)}."


def speedup(runs: Rows, group: Group, against: float) -> float:
    """Speed-up of a group's median run to the target over `against` seconds; nan if it missed the target."""
    return against / reached(of(runs, group), "seconds_to_score")


def runs_table(runs: Rows) -> str:
    """Runs to the target by algorithm, topology and number of workers; medians over seeds."""
    best, best_seconds = best_sequential(runs)

    def own(rows: Rows, over: Callable[[Rows], Rows] = list) -> str:
        variant = rows[0]["variant"]
        return _range_of_speedups(over(rows), sequential(over(of(runs, (variant, "serial", 1))), variant))

    def to(field: str) -> Callable[[Rows], str]:
        return lambda rows: figure_text(to_target(rows, field))

    columns: Columns = {
        "solved": _solved,
        "seconds to 200": _spread("seconds_to_score"),
        "speed-up, own": own,
        "start (s)": "start_seconds",
        "without the start": lambda rows: own(rows, started),
        f"speed-up, {best or 'best'}": lambda rows: figure_text(best_seconds / reached(rows, "seconds_to_score")),
        "environment steps to 200": _spread("steps_to_score"),
        "episodes": to("episodes"),
        "with evaluations (s)": to("total_seconds"),
        "updates": to("updates"),
        "s/episode": _known_spread("seconds_per_episode"),
        "updates/s": _known_spread("updates_per_second"),
        "samples per step": "samples_per_step",
        "set": "samples_per_step_set",
        "score that decided": _scores,
    }
    caption = (
        "Medians over seeds (least to most). Own: over the sequential run of the same algorithm; the other: over "
        "the best sequential run. The score is of the 100 episodes that ended the run, or of 100 at its time limit"
    )
    return summary_table(_named(runs), columns, caption)


def published_table(runs: Rows) -> str:
    """The published LunarLander runs and ours of the same kind, side by side."""
    published = lunar_lander()
    lines = []
    for name, (variant, topology) in COUNTERPARTS.items():
        ours = {workers for each, where, workers in groups_of(runs) if (each, where) == (variant, topology)}
        theirs = {processes for each, processes in published if each == name}
        for count in sorted(ours | theirs):
            said, group = published.get((name, count)), (variant, topology, count)
            rows = of(runs, group)
            lines.append((
                f"{name}, {count}",
                *(figure_text(said and getattr(said, field))
                  for field in ("episodes", "minutes", "seconds_per_episode", "speedup")),
                f"{variant}, {topology}",
                figure_text(to_target(rows, "episodes")),
                figure_text(to_target(rows, "environment_steps")),
                figure_text(reached(rows, "seconds_to_score") / 60),
                figure_text(middle(rows, "seconds_per_episode")),
                figure_text(speedup(runs, group, _one_worker(runs, group))),
                figure_text(speedup(runs, group, sequential(runs, variant))),
            ))  # fmt: skip
    header = (
        "", "published: episodes (of one)", "minutes", "s/episode", "speed-up on 1 process", "ours",
        "episodes (of all)", "environment steps", "minutes", "s/episode", "speed-up on 1 worker", "on serial",
    )  # fmt: skip
    return table(header, lines, "LunarLander to 200 by number of processes")


def _atari_table(runs: Rows) -> str:
    """The speed-ups of Mnih et al. 2016 by threads, next to those of our lock-free runs over one worker."""
    published = atari()
    counts = sorted({count for row in published.values() for count in row})
    lines = [
        (f"published, {method}", *(figure_text(row.get(count)) for count in counts))
        for method, row in published.items()
    ]
    for variant in ("dqn", "a3c"):
        groups = [(variant, "hogwild", count) for count in counts]
        if any(of(runs, group) for group in groups):
            ours = (figure_text(speedup(runs, group, _one_worker(runs, group))) for group in groups)
            lines.append((f"ours, {variant}, hogwild", *ours))
    caption = "Speed-up to a score over one worker: published the mean of seven Atari games, ours LunarLander to 200"
    return table(("", *(f"{count}" for count in counts)), lines, caption)


def _throughput_table(rows: Rows) -> str:
    """Updates and environment steps per second, and the ratio to one worker."""

    def of_one(these: Rows) -> str:
        alone = of(rows, (these[0]["variant"], these[0]["topology"], 1))
        return figure_text(middle(these, "updates_per_second") / middle(alone, "updates_per_second"))

    columns: Columns = {
        "updates/s": _known_spread("updates_per_second"), "of one worker's": of_one, "steps/s": "steps_per_second",
        "samples per step": "samples_per_step", "waiting for the lock": "lock_wait_share:.1%", "rounds": number_of,
    }  # fmt: skip
    caption = "All workers together, once all of them run; medians over rounds (least to most)"
    return summary_table(_named(rows), columns, caption)


def _sharing_table(rows: Rows) -> str:
    """The gradients' staleness, and the share that was applied."""
    known = [row for row in rows if row["accepted"] is not None]
    shown, lines = [], []
    for name, these in _named(known):
        shares = {bucket: mean([row[f"staleness_{bucket}"] or 0.0 for row in these]) for bucket in STALENESS}
        parts = [(each, color, shares[each]) for each, color in zip(STALENESS, _SHARE_COLORS, strict=True)]
        shown.append((name, share_bar([part for part in parts if part[2]])))
        lines.append((
            name, *cells(these, "staleness"), *(f"{shares[bucket]:.1%}" for bucket in STALENESS),
            f"{middle(these, 'lock_wait_share'):.1%}", *cells(these, "accepted", "dropped", "refused"),
        ))  # fmt: skip
    header = ("", "mean", *STALENESS, "waiting for the lock", "applied", "dropped", "refused")
    caption = "Updates by other workers between a gradient's parameters and its application: shares of all gradients"
    return bars(shown) + table(header, lines, caption) if lines else ""


def _ablation_table(rows: Rows) -> str:
    """Real environment steps to the target with and without planning."""
    own = reached(chosen(rows, variant="dyna-q"), "steps_to_score")
    columns: Columns = {
        "solved": _solved, "real steps to 200": _spread("steps_to_score"),
        "over dyna-q's": lambda these: figure_text(reached(these, "steps_to_score") / own),
        "seconds to 200": _spread("seconds_to_score"), "updates": "updates", "steps of the run": "environment_steps",
        "real samples per step": "samples_per_step", "score": _scores,
    }  # fmt: skip
    caption = "Acting, learning and planning in turn, in one process; medians over seeds (least to most)"
    return summary_table(grouped(rows, "variant"), columns, caption)


def ablation_text(rows: Rows, comparisons: Sequence[Comparison]) -> list[str]:
    """The gain from planning in these rows, the reason that it is not larger, and two variants that are identical."""
    said = {each.where: each for each in comparisons if each.figure == PLANNING}
    found = []
    alike = next((said[name] for name in (_OFF, _AS_MANY) if name in said), None)
    if alike is not None:
        outcome = {
            "holds": "Planning saves real steps at as many updates: all runs that plan are sooner than all that do not",
            "MISSED": "Planning does not save real steps at as many updates",
        }.get(alike.verdict, "Whether planning saves real steps at as many updates, these runs do not decide")
        found.append(f"{outcome} ({alike.note}).")
        if alike.verdict != "holds":
            found.append(_WHY_NO_GAIN)
    twins = [{row["seed"]: (row["environment_steps"], row["updates"], row["steps_to_score"])
              for row in rows if row["variant"] == name} for name in (_OFF, _AS_MANY)]  # fmt: skip
    if all(twins):
        both = twins[0].keys() & twins[1].keys()
        same = sum(twins[0][seed] == twins[1][seed] for seed in both)
        found.append(
            f"“{_AS_MANY}” and “{_OFF}” are by construction the same run, bit for bit, reached by the settings of two "
            f"algorithms; of {len(both)} seeds that have both, {same} came to the same steps and updates."
        )
    return found


def _faults_table(rows: Rows) -> str:
    """Runs that lost a quarter of their workers, next to undisturbed ones."""
    groups = [
        (f"{topology} × {workers}" + (f", {killed} killed" if killed else ""), these)
        for topology, mine in grouped(rows, "topology")
        for (killed, workers), these in sorted(grouped(mine, "killed", "workers"))
    ]
    columns: Columns = {
        "final score": _scores, "seconds": "seconds", "environment steps": "environment_steps", "updates": "updates",
        "deaths": "deaths", "updates after the first": "updates_after_death",
        "of those due": "updates_after_death_share", "alive at the end": "alive_at_end",
    }  # fmt: skip
    caption = "Mean of 100 greedy episodes at the end, for each seed; other figures are medians"
    return summary_table(groups, columns, caption)


def _named(rows: Rows) -> list[tuple[str, Rows]]:
    """The groups of rows with their names."""
    return [
        (f"{variant}, {topology}" + (f" × {workers}" if topology != "serial" else ""), of(rows, group))
        for group in groups_of(rows)
        for variant, topology, workers in [group]
    ]


def _one_worker(runs: Rows, group: Group) -> float:
    """Median seconds to the target with one worker of the same kind; nan if there is no such run."""
    return reached(of(runs, (*group[:2], 1)), "seconds_to_score")


def _range_of_speedups(rows: Rows, against: float) -> str:
    spread = spread_of(rows, "seconds_to_score")
    if not (isfinite(against) and isfinite(spread.median)):
        return "–"
    least, most = against / spread.high if spread.high < inf else 0.0, against / spread.low
    middle_text = figure_text(against / spread.median)
    return middle_text if least == most else f"{middle_text} ({figure_text(least)} to {figure_text(most)})"


def _solved(rows: Rows) -> str:
    return f"{sum(row['solved'] == 'yes' for row in rows)} of {len(rows)}"


def _scores(rows: Rows) -> str:
    return ", ".join("–" if row["score"] is None else figure_text(row["score"]) for row in rows)


def _spread(field: str) -> Callable[[Rows], str]:
    return lambda rows: str(spread_of(rows, field))


def _known_spread(field: str) -> Callable[[Rows], str]:
    return lambda rows: str(spread_of([row for row in rows if row[field] is not None], field))
