"""The tables and plots of the study: published and measured figures side by side."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite, nan

from headrace.gradients.measured import STALENESS
from headrace.report.document import plot_row, share_bar
from headrace.studies import page
from headrace.studies.base import Results
from headrace.studies.comparisons import Comparison
from headrace.studies.concurrency.cases import UNCHANGED
from headrace.studies.concurrency.comparisons import (
    COUNTERPARTS,
    PLANNING,
    Group,
    atari,
    best_sequential,
    groups_of,
    lunar_lander,
    of,
    reached,
    sequential,
    speedup,
    spread_of,
    started,
    to_target,
)
from headrace.studies.plots import Line, draw_lines
from headrace.studies.sheet import Rows
from headrace.studies.statistics import chosen, distinct, grouped, mean, middle, probability_of_more

__all__ = ["ablation_text", "blocks", "published_table", "runs_table", "verdict"]

_COLORS = {"lock": "c2", "hogwild": "c1", "parameter-server": "c3", "ad-psgd": "c5", "apex": "c4"}
_SHARE_COLORS = ("c1", "c4", "c3", "c2", "c7", "c5", "c6", "ink")
_WORDS = {"holds": "met", "MISSED": "not met", "undecided": "undecided"}
_OFF, _AS_MANY = "dyna-q, no planning", "dqn, dyna-q's updates"
_PLANNING_WORDS = {
    "holds": "Planning saves real steps at as many updates: all runs that plan are sooner than all that do not",
    "MISSED": "Planning does not save real steps at as many updates",
    "undecided": "Whether planning saves real steps at as many updates, these runs do not decide",
}
_WHY_NO_GAIN = (
    "Why the gain is not larger (docs/algorithms/dyna_q.md): the model predicts flight well, but not leg contacts, "
    "impacts and the lander coming to rest. These are jumps that a single state hardly predicts, and the reward of "
    "±100 depends on them. Much of Dyna-Q's gain over the preset's DQN comes from the replay ratio, which DQN can "
    "use too."
)
_TILES = {
    "updates/s, 2 workers / one process": "updates per second of 2 workers over one process",
    "runs that reach the target (%)": "% of the runs reach the target",
    "samples per step, off what is set (%)": "% is the replay ratio off what is set, at most",
    PLANNING: "real steps without planning over Dyna-Q's",
    "mean score, a quarter of the workers killed on the way": "mean score, a quarter of workers killed",
}


def blocks(results: Results) -> Mapping[str, str]:
    """The blocks of page.md."""
    comparisons = results.comparisons
    parts = ("runs", "throughput", "ablation", "faults", "simulated", "factors")
    runs, throughput, ablation, faults, simulated, factors = (results.rows[part] for part in parts)
    required = [
        (each.figure, each.where, each.ours, each.required, _WORDS[each.verdict], each.note)
        for each in comparisons
        if each.verdict
    ]
    sharing_bars, sharing = _sharing(runs or throughput)
    return {
        "tiles": page.worst_tiles(comparisons, _TILES),
        "verdict": verdict(comparisons),
        "required": page.table(("", "where", "ours", "required", "", ""), required),
        "published_plots": _published_plots("runs", runs),
        "published": published_table(runs) if runs else "",
        "atari": _atari_table(runs) if runs else "",
        "plots": _over_workers("runs", runs, {
            "speed-up against serial": lambda group: speedup(runs, group, _serial(group)),
            "environment steps to 200": lambda group: reached(of(runs, group), "steps_to_score"),
            "seconds per episode": lambda group: middle(of(runs, group), "seconds_per_episode"),
        }),
        "runs": runs_table(runs),
        "throughput_plots": _over_workers("throughput", throughput, {
            "updates/s": lambda group: middle(of(throughput, group), "updates_per_second")
        }),
        "throughput": _throughput_table(throughput),
        "sharing_bars": sharing_bars,
        "sharing": sharing,
        "ablation": _ablation_table(ablation),
        "ablation_notes": page.note_list(ablation_text(ablation, comparisons)),
        "faults": _faults_table(faults),
        "simulated_published": _published_plots("simulated", simulated),
        "simulated_plots": _over_workers("simulated", simulated, {
            "speed-up against serial": lambda group: speedup(simulated, group, _serial(group)),
            "environment steps to 200": lambda group: reached(of(simulated, group), "steps_to_score"),
            "staleness": lambda group: middle(of(simulated, group), "staleness"),
        }),
        "simulated": runs_table(simulated, start=False),
        "factors": _factors_table(factors),
    }  # fmt: skip


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


def _serial(group: Group) -> Group:
    return group[0], "serial", 1


def _one_worker(group: Group) -> Group:
    return (*group[:2], 1)


def _published_plots(part: str, runs: Rows) -> str:
    plots = []
    published = lunar_lander()
    for name, (variant, topology) in COUNTERPARTS.items():
        theirs = {
            count: said["speedup"] for (each, count), said in published.items() if each == name and said["speedup"]
        }
        counts = sorted({count for each, where, count in groups_of(runs) if (each, where) == (variant, topology)})
        if not (theirs and counts):
            continue
        places = sorted({*theirs, *counts})
        groups = [(variant, topology, count) for count in places]
        over_one, over_serial = (
            [speedup(runs, group, over(group)) for group in groups] for over in (_one_worker, _serial)
        )
        lines = {
            "published, over 1 process": Line([theirs.get(count) or nan for count in places], "c7", dashed=True),
            f"ours, {topology}, over 1 worker": Line(over_one, "c3"),
            f"ours, {topology}, over serial": Line(over_serial, "c1"),
            "as many as workers": Line([float(count) for count in places], "c6", dashed=True),
        }
        plots.append(draw_lines(f"{part}-published-{name}", "workers", f"{variant}: speed-up to 200", places, lines))
    return plot_row(plots)


def _over_workers(part: str, rows: Rows, figures: Mapping[str, Callable[[Group], float]]) -> str:
    """Figures over the number of workers, one plot per algorithm and figure with a line per topology.

    An algorithm with fewer than two numbers of workers has no plot.
    """
    plots = []
    for variant in distinct(rows, "variant"):
        groups = [group for group in groups_of(rows) if group[0] == variant and group[1] != "serial"]
        counts = sorted({count for _, _, count in groups})
        for label, value in figures.items() if len(counts) > 1 else ():
            lines = {}
            for topology in dict.fromkeys(topology for _, topology, _ in groups):
                places = [(variant, topology, count) for count in counts]
                values = [value(group) if group in groups else nan for group in places]
                lines[topology] = Line(values, _COLORS[topology])
            plots.append(draw_lines(f"{part}-{variant}-{label}", "workers", f"{variant}: {label}", counts, lines))
    return plot_row(plots) if rows else ""


def runs_table(runs: Rows, *, start: bool = True) -> str:
    """Runs to the target by algorithm, topology and number of workers; medians over seeds.

    `start`: with columns on the time that processes take to start.
    """
    best, best_seconds = best_sequential(runs)

    def own(rows: Rows, over: Callable[[Rows], Rows] = list) -> str:
        variant = rows[0]["variant"]
        return _range_of_speedups(over(rows), sequential(over(of(runs, (variant, "serial", 1))), variant))

    starts: page.Columns = {"start (s)": "start_seconds", "without the start": lambda rows: own(rows, started)}
    columns: page.Columns = {
        "solved": _solved,
        "seconds to 200": _spread("seconds_to_score"),
        "speed-up, own": own,
        **(starts if start else {}),
        f"speed-up, {best or 'best'}": lambda rows: best_seconds / reached(rows, "seconds_to_score"),
        "environment steps to 200": _spread("steps_to_score"),
        "episodes": lambda rows: to_target(rows, "episodes"),
        "with evaluations (s)": lambda rows: to_target(rows, "total_seconds"),
        "updates": lambda rows: to_target(rows, "updates"),
        "s/episode": _known_spread("seconds_per_episode"),
        "updates/s": _known_spread("updates_per_second"),
        "samples per step": "samples_per_step",
        "set": "samples_per_step_set",
        "score that decided": _scores,
    }
    return page.summary_table(_named(runs), columns)


def published_table(runs: Rows) -> str:
    """The published LunarLander runs and ours of the same kind, side by side."""
    published = lunar_lander()
    lines = []
    for name, (variant, topology) in COUNTERPARTS.items():
        ours = {workers for each, where, workers in groups_of(runs) if (each, where) == (variant, topology)}
        theirs = {processes for each, processes in published if each == name}
        for count in sorted(ours | theirs):
            said, group = published.get((name, count), {}), (variant, topology, count)
            rows = of(runs, group)
            lines.append((
                f"{name}, {count}",
                *(said.get(field) for field in ("episodes", "minutes", "seconds_per_episode", "speedup")),
                f"{variant}, {topology}",
                to_target(rows, "episodes"),
                to_target(rows, "environment_steps"),
                reached(rows, "seconds_to_score") / 60,
                middle(rows, "seconds_per_episode"),
                speedup(runs, group, _one_worker(group)),
                speedup(runs, group, _serial(group)),
            ))  # fmt: skip
    header = (
        "", "published: episodes (of one)", "minutes", "s/episode", "speed-up on 1 process", "ours",
        "episodes (of all)", "environment steps", "minutes", "s/episode", "speed-up on 1 worker", "on serial",
    )  # fmt: skip
    return page.table(header, lines)


def _atari_table(runs: Rows) -> str:
    """The speed-ups of Mnih et al. 2016 by threads, next to those of our lock-free runs over one worker."""
    published = atari()
    counts = sorted({count for row in published.values() for count in row})
    lines = [(f"published, {method}", *(row.get(count) for count in counts)) for method, row in published.items()]
    for variant in ("dqn", "a3c"):
        groups = [(variant, "hogwild", count) for count in counts]
        if any(of(runs, group) for group in groups):
            lines.append((
                f"ours, {variant}, hogwild", *(speedup(runs, group, _one_worker(group)) for group in groups)
            ))  # fmt: skip
    return page.table(("", *map(str, counts)), lines)


def _throughput_table(rows: Rows) -> str:
    """Updates and environment steps per second, and the ratio to one worker."""

    def of_one(these: Rows) -> float:
        alone = of(rows, (these[0]["variant"], these[0]["topology"], 1))
        return middle(these, "updates_per_second") / middle(alone, "updates_per_second")

    columns: page.Columns = {
        "updates/s": _known_spread("updates_per_second"),
        "of one worker's": of_one,
        "steps/s": "steps_per_second",
        "samples per step": "samples_per_step",
        "waiting for the lock": "lock_wait_share:.1%",
        "rounds": page.number_of,
    }
    return page.summary_table(_named(rows), columns)


def _sharing(rows: Rows) -> tuple[str, str]:
    """Bars and a table of the gradients' staleness, and the share that was applied."""
    known = [row for row in rows if row["accepted"] is not None]
    shown, lines = [], []
    for name, these in _named(known):
        shares = {bucket: mean([row[f"staleness_{bucket}"] or 0.0 for row in these]) for bucket in STALENESS}
        parts = [(each, color, shares[each]) for each, color in zip(STALENESS, _SHARE_COLORS, strict=True)]
        shown.append((name, share_bar([part for part in parts if part[2]])))
        outcomes = page.cells(these, "lock_wait_share:.1%", "accepted", "dropped", "refused")
        lines.append((name, *page.cells(these, "staleness"), *(f"{share:.1%}" for share in shares.values()), *outcomes))
    header = ("", "mean", *STALENESS, "waiting for the lock", "applied", "dropped", "refused")
    return page.bars(shown), page.table(header, lines)


def _ablation_table(rows: Rows) -> str:
    """Real environment steps to the target with and without planning."""
    own = reached(chosen(rows, variant="dyna-q"), "steps_to_score")
    columns: page.Columns = {
        "solved": _solved,
        "real steps to 200": _spread("steps_to_score"),
        "over dyna-q's": lambda these: reached(these, "steps_to_score") / own,
        "seconds to 200": _spread("seconds_to_score"),
        "updates": "updates",
        "steps of the run": "environment_steps",
        "real samples per step": "samples_per_step",
        "score": _scores,
    }
    return page.summary_table(grouped(rows, "variant"), columns)


def ablation_text(rows: Rows, comparisons: Sequence[Comparison]) -> list[str]:
    """The gain from planning in these rows, the reason that it is not larger, and two variants that are identical."""
    said = {each.where: each for each in comparisons if each.figure == PLANNING}
    found = []
    alike = next((said[name] for name in (_OFF, _AS_MANY) if name in said), None)
    if alike is not None:
        found.append(f"{_PLANNING_WORDS[alike.verdict]} ({alike.note}).")
        found += [_WHY_NO_GAIN] if alike.verdict != "holds" else []
    twins = [
        {row["seed"]: (row["environment_steps"], row["updates"], row["steps_to_score"]) for row in these}
        for these in (chosen(rows, variant=_OFF), chosen(rows, variant=_AS_MANY))
    ]
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
    columns: page.Columns = {
        "final score": _scores,
        "seconds": "seconds",
        "environment steps": "environment_steps",
        "updates": "updates",
        "deaths": "deaths",
        "updates after the first": "updates_after_death",
        "of those due": "updates_after_death_share",
        "alive at the end": "alive_at_end",
    }
    return page.summary_table(groups, columns)


def _factors_table(rows: Rows) -> str:
    """Steps to the target of each change, over those of a serial run with it, and of runs without it."""

    def steps(these: Rows) -> list[float]:
        return [inf if row["steps_to_score"] is None else row["steps_to_score"] for row in these]

    def over(these: Rows, others: Rows) -> str:
        if not others or others == these:
            return "–"
        ratio = reached(these, "steps_to_score") / reached(others, "steps_to_score")
        return f"{page.figure_text(ratio)}, P {probability_of_more(steps(others), steps(these)):.2f}"

    def serial(these: Rows) -> Rows:
        return of(rows, (these[0]["variant"], "serial", 1)) or of(rows, (UNCHANGED, "serial", 1))

    def unchanged(these: Rows) -> Rows:
        return of(rows, (UNCHANGED, these[0]["topology"], these[0]["workers"]))

    columns: page.Columns = {
        "solved": _solved,
        "environment steps to 200": _spread("steps_to_score"),
        "over serial's": lambda these: over(these, serial(these)),
        "over those without the change": lambda these: over(these, unchanged(these)),
        "updates": lambda these: to_target(these, "updates"),
        "staleness": "staleness",
        "seconds to 200": _spread("seconds_to_score"),
    }
    return page.summary_table(_named(rows), columns)


def _named(rows: Rows) -> list[tuple[str, Rows]]:
    """The groups of rows with their names."""
    return [
        (f"{group[0]}, {group[1]}" + (f" × {group[2]}" if group[1] != "serial" else ""), of(rows, group))
        for group in groups_of(rows)
    ]


def _range_of_speedups(rows: Rows, against: float) -> str:
    spread = spread_of(rows, "seconds_to_score")
    if not (isfinite(against) and isfinite(spread.median)):
        return "–"
    least, most = against / spread.high if spread.high < inf else 0.0, against / spread.low
    middle_text = page.figure_text(against / spread.median)
    return middle_text if least == most else f"{middle_text} ({page.figure_text(least)} to {page.figure_text(most)})"


def _solved(rows: Rows) -> str:
    return f"{sum(row['solved'] == 'yes' for row in rows)} of {len(rows)}"


def _scores(rows: Rows) -> str:
    return ", ".join(page.figure_text(row["score"]) for row in rows)


def _spread(field: str) -> Callable[[Rows], str]:
    return lambda rows: str(spread_of(rows, field))


def _known_spread(field: str) -> Callable[[Rows], str]:
    return lambda rows: str(spread_of([row for row in rows if row[field] is not None], field))
