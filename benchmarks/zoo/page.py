"""docs/zoo.md and its plots, from the rows."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.zoo.published import SCORES
from benchmarks.zoo.runs import FAILED, read_rows
from benchmarks.zoo.scores import Place, Rows, Taken, cells, fewer, median, relative, shared_tasks, taken
from benchmarks.zoo.statistics import LEAST_SEEDS, Estimate, profiles, seed_estimates
from benchmarks.zoo.tasks import HEADRACE, SIMULATED, TASKS, Task, systems_of
from headrace.report.formats import counted, duration
from headrace.report.output import write_output
from headrace.report.svg import COLORS, plain_axes, stand_alone, to_svg
from headrace.settings import preset
from headrace.zoo import kept_policies

__all__ = ["page_text", "write_page"]

_DOCS = Path(__file__).parent.parent.parent / "docs"
_PAGE = _DOCS / "zoo.md"
_PLOT = _DOCS / "images" / "zoo-profiles.svg"
_TITLES = {"sb3": "Stable-Baselines3", "cleanrl": "CleanRL", "torchrl": "TorchRL"}
_PEERS = ("sb3", "cleanrl", "torchrl")
_OURS = ("apex", "serial", "frugal")
"""What is compared with the peers."""
_WHOLE_MACHINE = ("apex", "hogwild")
_TIMES = np.geomspace(0.25, 64, 65)
_LEAST_ALIKE = 3
"""Seeds of each system without which no seconds are compared."""
"""Of the profiles' horizontal axis."""


class _Figure(NamedTuple):
    """What the page compares between systems: a column, and what counts for a run that did not reach the score."""

    column: str
    until_the_end: str
    """What the run took until it ended."""
    limit: str
    """For a run that was killed."""


_STEPS = _Figure("steps_to_score", "environment_steps", "most_steps")
_SECONDS = _Figure("seconds_to_score", "seconds", "most_seconds")


def write_page() -> None:
    """Writes the page and its plot."""
    rows = read_rows()
    plot = _draw_profiles([row for row in rows if row["ended"] != FAILED])
    if plot:
        write_output(_PLOT, plot)
    write_output(_PAGE, page_text(rows, plot=bool(plot)))
    print(f"written: {_PAGE.relative_to(_DOCS.parent)}")


def page_text(rows: Rows, *, plot: bool) -> str:
    """The page in Markdown."""
    ended = [row for row in rows if row["ended"] != FAILED]
    parts = [_INTRODUCTION, _failures(rows), _policies(), _table(ended), _wall_clock(ended), _comparison(ended)]
    if plot:
        parts.append(_PROFILES)
    return "\n\n".join(part for part in (*parts, _METHODS, _origin(ended)) if part) + "\n"


_INTRODUCTION = """# Zoo
Trained policies that come with Headrace, and what its presets reach, some of them next to other libraries. This page is
written by `python -m benchmarks.zoo --page` from [`runs.csv`](../benchmarks/results/zoo/runs.csv), which
`python -m benchmarks.zoo` fills."""

_PROFILES = """## Performance profiles
Share of runs that reached the threshold at least τ times as fast as the median run of Stable-Baselines3 in the same
task, with 95 % intervals, over the tasks of which both systems have ten seeds on one machine, cores and day, and in
which that run reached it.

![Performance profiles](images/zoo-profiles.svg)"""

_METHODS = """## Methods
- A run ends when 100 greedy episodes average the threshold, or at its limit: three times the steps of the preset at
  that time (for `frugal`, of the ordinary preset), all steps that another library publishes, or the training seconds in
  the CSV. Every system is evaluated by the same function, off the clock and each time on other episodes: 10 after each
  period, and 100 if they reach the threshold. The period is 1,000 to 20,000 environment steps
  (`benchmarks/zoo/tasks.py`), and 0.5 to 5 seconds of training for topologies with several processes, which go on
  training during an evaluation if a core is left over. These are also evaluated, at most every 3 seconds, when 20
  episodes of environments that hardly explore average the threshold; no other system is, so that its time may be up
  to a period longer.
- The score is the mean of 100 greedy episodes with seeds that had no part in the decision to stop. `held` counts
  the runs whose score reaches the required one.
- Numbers of ten seeds are interquartile means with 95 % stratified bootstrap intervals by rliable (Agarwal et al.
  2021); those of fewer are medians with the lowest and the highest value. A run that did not reach the threshold counts
  with what it took until it ended, and ≥ marks such a figure.
- Thresholds and presets were chosen in earlier runs: those of CartPole-v1, HalfCheetah-v5, Hopper-v5, hopper-hop,
  Taxi-v4 and Pendulum-v1-a3c partly with seeds that are shown here, as were the frugal presets of Acrobot-v1
  (seeds 0 and 1) and MountainCar-v0 (0 to 4), and how much Ape-X explores in Taxi-v4 and Wheels (0 to 2). The
  thresholds of Ant-v5 (3,000),
  BipedalWalker-v3 (290), finger-spin (870) and DoorKey (0.95) were lowered after runs that did not reach them in time.
  The presets' steps were raised after 21 runs that needed more, of Acrobot-v1, MountainCar-v0, LunarLander-v3-a3c,
  LunarLander-v3-dyna-q, Pendulum-v1-a3c, BipedalWalker-v3, Walker2d-v5, walker-stand, finger-spin and hopper-hop.
  A run ends where it first reaches the threshold: further training can lower its score, as it did in Hopper-v5
  ([decisions](decisions.md); no rows of those runs are kept).
- `apex`, `serial` and the workers' topologies are the presets; `frugal` is the preset of `--frugal`; `simulated-8` and
  `simulated-16` are the preset with HogWild in simulated time, evaluated by steps. Stable-Baselines3 has the settings
  of its zoo, TorchRL those of its published script (`benchmarks/zoo/published.py`). CleanRL's DQN is plain torch with
  its published network, settings and loop: its package needs Python 3.10 or older.
- What a preset chooses differently can count more than the code. On HalfCheetah-v5 networks of 128 × 128 instead of
  256 × 256 and batches of 128 instead of 256 need a seventh of Stable-Baselines3's products for each update, and an
  update for every second step makes half as many of them: 14 of the factor of 15 in seconds, if time were that of
  the products alone, which is not measured.
- All runs are of an AMD EPYC, which is not equally fast every day: three runs of Stable-Baselines3, with the same
  steps each time, took 2.4 (CartPole-v1) and 1.8 times (Pendulum-v1) as long on 26 November (`runs.csv` of commit
  baede4b6) as on the 27th (0c9829b8), and in four tasks 0.86 to 0.96 times as long on the 27th as on the 28th (medians
  of the ratios; commit 31269ee5). The 40 runs of CartPole-v1 with `serial`, `frugal`, Stable-Baselines3 and CleanRL
  had the same steps and scores as those of commit 31269ee5, up to two days older, and took 0.6 to 1.6 times as long.
- Runs with one core had one of the machine's two, and another program had the other. Runs of dm_control's cartpole,
  walker and cheetah, and of BipedalWalker, were measured while other programs ran on their cores: their
  seconds are upper bounds.
- The costs of CartPole-v1's simulated runs were measured on one core, so that busy cores do not slow each other there;
  in the other tasks they do by 0.3 to 4 %.
- Published scores: SB3, the benchmark.md of its zoo, one run of each, in LunarLander-v2 and MuJoCo v3; ActorQ,
  D4PG of Krishnan et al. 2022, with floats; YuriyGuts, the DQN of snake-ai-reinforcement."""


def _failures(rows: Rows) -> str:
    """What did not hold, first on the page."""
    measured = dict.fromkeys((row["system"], row["task"]) for row in rows)
    lines = [*_less_frugal(rows), *_lacking(measured), *_with_few_seeds(rows)]
    parts = ["\n".join(_missed(rows)), "\n".join(lines)]
    return "## What did not hold\n" + ("\n\n".join(part for part in parts if part) or "Nothing.")


def _missed(rows: Rows) -> list[str]:
    """A table of the scores below the required one, and of the runs beyond the steps of a user's run, by task."""
    lines = []
    for task in TASKS:
        low, late = [], []
        for system in HEADRACE:
            runs = [row for row in rows if (row["system"], row["task"]) == (system, task.name)]
            if not runs:
                continue
            steps = preset(task.environment, task.algorithm, frugal=system == "frugal").steps
            below = [_score(row) for row in runs if row["holds"] != "True"]
            if below:
                low.append(f"{_title(system)} {len(below)} of {len(runs)} ({', '.join(below)})")
            taken = [row["steps_to_score"] or row["environment_steps"] for row in runs]
            beyond = sum(not made or float(made) > steps for made in taken)  # none: it diverged, or was killed
            if beyond:
                late.append(f"{_title(system)} {beyond} of {len(runs)}")
        if low or late:
            lines.append(f"| {task.name} | {_plain(task.required)} | {', '.join(low)} | {', '.join(late)} |")
    head = ["| | required | scores below it | runs that needed more steps than the preset has |", f"|{'---|' * 4}"]
    return [*head, *lines] if lines else []


def _score(row: Mapping[str, str]) -> str:
    return f"{float(row['fresh_mean']):.5g}".replace("-", "−") if row["fresh_mean"] else "none"


def _less_frugal(rows: Rows) -> Iterator[str]:
    """Frugal presets whose runs need rather more steps than another library's."""
    steps = taken(rows, _STEPS.column, _STEPS.until_the_end)
    for ours, theirs in _pairs(["frugal"], steps):
        probability = fewer(steps[ours], steps[theirs])
        if probability < 0.5:
            yield f"- {ours[1]}, `frugal`: rather more steps than {_title(theirs[0])} (P(fewer) {probability:.2f})"


def _lacking(measured: Container[tuple[str, str]]) -> Iterator[str]:
    """What has not been measured, by system."""
    for system in dict.fromkeys(system for task in TASKS for system in systems_of(task)):
        tasks = [task.name for task in TASKS if system in systems_of(task)]
        lacking = [name for name in tasks if (system, name) not in measured]
        if lacking:
            names = f"none of {len(tasks)}" if len(lacking) == len(tasks) > 1 else f"not {', '.join(lacking)}"
            yield f"- Measured with {_title(system)}: {names}"


def _with_few_seeds(rows: Rows) -> Iterator[str]:
    """What has too few seeds for an interval, by system."""
    seeds = Counter((system, task) for system, task, _ in {(row["system"], row["task"], row["seed"]) for row in rows})
    for system in dict.fromkeys(row["system"] for row in rows):
        few = [
            f"{name} {count}" for (each, name), count in sorted(seeds.items()) if each == system and count < LEAST_SEEDS
        ]
        if few:
            yield f"- Fewer than {LEAST_SEEDS} seeds with {_title(system)}: {', '.join(few)}"


def _policies() -> str:
    lines = [
        "## Policies",
        '`headrace evaluate zoo:NAME` plays one, and `headrace.load("zoo:NAME")` returns it, offline. Each is that of',
        "the run with the median score among those that had reached the required score when it was kept; its steps may",
        "be far from the median. The settings are in",
        "`src/headrace/zoo/policies/index.json`.",
        "",
        "| | algorithm | environment steps | mean return of 100 episodes |",
        "|---|---|---|---|",
    ]
    for name, kept in kept_policies().items():
        score = f"{_plain(kept.mean_return)} ± {_plain(kept.std_return)}"
        lines.append(f"| `zoo:{name}` | {kept.algorithm} | {kept.environment_steps:,} | {score} |")
    return "\n".join(lines)


def _table(rows: Rows) -> str:
    lines = [
        "## Presets measured",
        "| | system | cores | seeds | threshold | reached | steps to it | seconds to it "
        "| score there | required | held | published |",
        f"|{'---|' * 12}",
    ]
    columns = [_figures(rows, figure) for figure in (_STEPS, _SECONDS)]
    scores = seed_estimates(cells(rows, "fresh_mean"))
    for task in TASKS:
        for system in dict.fromkeys(row["system"] for row in rows if row["task"] == task.name):
            runs = [row for row in rows if (row["system"], row["task"]) == (system, task.name)]
            reached = sum(row["ended"] == "score" for row in runs)
            figures = [column.get((system, task.name), "") for column in columns]
            figures.append(_shown(scores.get((system, task.name))))
            score, source = SCORES.get(task.name, (None, ""))
            published = "" if score is None else f"{_plain(score)} ({source})"
            threshold = ", ".join(sorted({_plain(float(each["stop_at"])) for each in runs}))
            held = sum(each["holds"] == "True" for each in runs)
            cores = ", ".join(sorted({each["cores"] for each in runs}))
            ours = (threshold, reached, *figures, _plain(task.required), held)
            row = (task.name, _title(system), cores, len(runs), *ours, published)
            lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def _figures(rows: Rows, figure: _Figure) -> dict[tuple[str, str], str]:
    """Means by system and task; ≥ marks those of runs of which one did not reach the threshold."""
    never = {(row["system"], row["task"]) for row in rows if row["ended"] != "score"}
    means = seed_estimates(cells(rows, *figure))
    return {key: ("≥ " if key in never else "") + _shown(mean) for key, mean in means.items()}


def _wall_clock(rows: Rows) -> str:
    """Seconds to the threshold by the number of cores, of runs of one day in each task; empty without such runs."""
    systems = ("serial", *_WHOLE_MACHINE, *SIMULATED)
    alike = [row for task in TASKS for row in _of_one_day(rows, task, systems)]
    shown, seeds = _figures(alike, _SECONDS), Counter((row["system"], row["task"]) for row in alike)
    for each in shown:
        if seeds[each] < LEAST_SEEDS:
            shown[each] += f", {counted(seeds[each], 'run')}"
    lines = []
    for task in TASKS:
        texts = [shown.get((system, task.name), "") for system in systems]
        if sum(map(bool, texts)) > 1:
            lines.append(f"| {task.name} | {' | '.join(texts)} |")
    if not lines:
        return ""
    head = [
        "## Seconds to the threshold by number of cores",
        "Training seconds: on one core (`serial`) and two (`apex`, `hogwild`) of the machine, and by 8 and 16 workers",
        "in [simulated time](simulation.md), whose costs were measured on it (`benchmarks/results/zoo/costs`; without",
        "this folder, they are measured again): a prediction for more such cores. A line has the runs of one machine",
        f"and day, the one with most systems and runs: {LEAST_SEEDS} of each, unless a number is given.",
        "",
        f"| | {' | '.join(map(_title, systems))} |",
        f"|---|{'---|' * len(systems)}",
    ]
    return "\n".join([*head, *lines])


def _of_one_day(rows: Rows, task: Task, systems: Container[str]) -> Rows:
    """The runs of these systems in a task on the machine and day with most of the systems, and of these most runs."""
    runs = [row for row in rows if row["task"] == task.name and row["system"] in systems]
    days: dict[tuple[str, str], list[str]] = {}
    for row in runs:
        days.setdefault(_day(row), []).append(row["system"])
    chosen = max(days, key=lambda day: (len(set(days[day])), len(days[day])), default=None)
    return [row for row in runs if _day(row) == chosen]


def _comparison(rows: Rows) -> str:
    """Our systems against each peer, on each task that both have."""
    steps = taken(rows, _STEPS.column, _STEPS.until_the_end)
    lines = []
    for ours, theirs in _pairs(_OURS, steps):
        seeds = f"{len(steps[ours])} and {len(steps[theirs])}"
        alike = _of_one_host(rows, ours, theirs)
        seconds = taken(alike, _SECONDS.column, _SECONDS.until_the_end)
        counts = [len(seconds.get(place, ())) for place in (ours, theirs)]
        enough = min(counts) >= _LEAST_ALIKE
        times = ("{} and {}".format(*counts), *_told(seconds, ours, theirs)) if enough else ("–", "–", "–")
        lines.append([ours[1], ours[0], theirs[0], seeds, *_told(steps, ours, theirs), *times])
    if not lines:
        return ""
    head = [
        "## Next to other libraries",
        "How many times as many environment steps and seconds the other library needs, by medians, and the probability",
        "that a run of Headrace needs fewer than one of the other library in the same task: 0.5 if there is no",
        "difference. `frugal` may have another algorithm than the other library in the same environment. Seconds are",
        "those of runs on the same machine, cores and day, the one with most of both, whose seeds stand before them. A",
        f"dash: there are fewer than {_LEAST_ALIKE} of either, or too many runs ended before the threshold to tell.",
        "",
        "| | Headrace | other | seeds | steps | P(fewer) | seeds of seconds | seconds | P(fewer) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    table = [f"| {name} | {_title(ours)} | {_title(peer)} | {' | '.join(more)} |" for name, ours, peer, *more in lines]
    return "\n".join([*head, *table])


def _pairs(systems: Sequence[str], measured: Container[Place]) -> Iterator[tuple[Place, Place]]:
    """Of these systems and the peers, what was measured and is comparable."""
    for ours, peer in product(systems, _PEERS):
        for task, theirs in product(TASKS, TASKS):
            places = (ours, task.name), (peer, theirs.name)
            if _comparable(ours, task, theirs) and all(place in measured for place in places):
                yield places


def _comparable(ours: str, task: Task, theirs: Task) -> bool:
    """Whether a peer's runs of `theirs` are held next to ours of `task`: `frugal` also chooses the algorithm."""
    same = (task.environment, task.stop_at) == (theirs.environment, theirs.stop_at)
    return task == theirs or (ours == "frugal" and same)


def _of_one_host(rows: Rows, ours: Place, theirs: Place) -> Rows:
    """The runs of two systems on the machine, cores and day with most of both; empty if they share none."""
    runs = [[row for row in rows if (row["system"], row["task"]) == place] for place in (ours, theirs)]
    ours_on, theirs_on = (Counter(map(_host, each)) for each in runs)
    shared = (ours_on & theirs_on).most_common(1)
    return [row for row in (*runs[0], *runs[1]) if shared and _host(row) == shared[0][0]]


def _host(row: Mapping[str, str]) -> tuple[str, str, str]:
    """What seconds depend on besides the system."""
    return *_day(row), row["cores"]


def _day(row: Mapping[str, str]) -> tuple[str, str]:
    """The machine and the day: machines of one name are not equally fast every day."""
    return row["machine"], row["date"][:10]


def _told(values: Mapping[Place, Sequence[Taken]], ours: Place, theirs: Place) -> tuple[str, str]:
    """The ratio of their median to ours, and the probability that ours takes fewer; dashes for what is not known."""
    medians = [median(values[place]) for place in (ours, theirs)]
    probability = fewer(values[ours], values[theirs])
    ratio = _plain(medians[1] / medians[0]) if np.isfinite(medians).all() else "–"
    return ratio, "–" if np.isnan(probability) else f"{probability:.2f}"


def _draw_profiles(rows: Rows) -> str:
    """The profiles of `serial`, which shares most tasks with it, and Stable-Baselines3; empty without rows of both."""
    pairs = ((("serial", task.name), ("sb3", task.name)) for task in TASKS)
    alike = [row for ours, theirs in pairs for row in _of_one_host(rows, ours, theirs)]
    speeds = relative(taken(alike, _SECONDS.column, _SECONDS.until_the_end), "sb3")
    speeds = {place: values for place, values in speeds.items() if len(values) >= LEAST_SEEDS}
    systems = [name for name in ("serial", "sb3") if any(system == name for system, _ in speeds)]
    shared = shared_tasks(speeds, systems) if len(systems) > 1 else {}
    if not shared:
        return ""
    figure, axes = plain_axes("times as fast as Stable-Baselines3's median run, τ", "share of runs at τ or above")
    axes.set_xscale("log", base=2)
    for color, (name, (shares, bounds)) in zip(("c1", "c2"), profiles(shared, _TIMES).items(), strict=False):
        axes.plot(_TIMES, shares, color=COLORS[color], label=_title(name), linewidth=1.5)
        if bounds is not None:
            axes.fill_between(_TIMES, bounds[0], bounds[1], color=COLORS[color], alpha=0.2)
    figure.legend(loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    return stand_alone(to_svg(figure, "zoo-profiles", "Performance profiles"))


def _origin(rows: Rows) -> str:
    """Where and when the rows were measured, and the time that it took."""
    if not rows:
        return "Nothing is measured yet."
    seconds = sum(float(row["seconds"] or row["most_seconds"]) for row in rows)
    commits = sorted({row["commit"] for row in rows})
    dates = sorted(row["date"][:10] for row in rows)
    machines = sorted({f"{row['machine']}, {row['cores']} core{'' if row['cores'] == '1' else 's'}" for row in rows})
    return (
        f"{len(rows)} runs, {duration(seconds)} of training, {dates[0]} to {dates[-1]}, on "
        f"{'; '.join(machines)}. Commits: {', '.join(commits)}."
    )


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    value, low, high = map(_plain, estimate)
    return value if low == high == value else f"{value} [{low}, {high}]"


def _plain(value: float) -> str:
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text.replace("-", "−")


def _title(system: str) -> str:
    return _TITLES.get(system, f"`{system}`")
