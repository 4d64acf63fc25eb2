"""The report of a run: one self-contained HTML page, light or dark like the reader's system."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from headrace.errors import CheckpointError, ConfigError
from headrace.fields import read_object
from headrace.report import figures
from headrace.report.document import document, plot_row, share_bar, tile_row
from headrace.report.formats import count, counted, duration, earlier_policy, number, score_text, size
from headrace.report.history import History, Record, collect
from headrace.report.output import write_output
from headrace.report.precision_view import precision_section
from headrace.report.progress import ACTOR_TIMES, LEARNER_TIMES
from headrace.report.run_directory import RunDirectory
from headrace.report.workers_view import workers_section

__all__ = ["set_ratio", "write_report"]


def write_report(run: RunDirectory, path: Path, video: bytes | None = None, video_note: str = "") -> None:
    """Writes the page of the run to `path`; `video` is an MP4 of its policy, `video_note` the reason if there is none.

    Raises CheckpointError if the run has no records yet, StorageError if `path` can't be written.
    """
    try:
        history = collect(run.iterate_metrics())
        if not history.progress and not history.evaluations:
            raise CheckpointError(f"{run.shown} has no records yet; there is nothing to report")
        config = read_object(run.read_config_text(), f"{run.config_path}")
        text = _page(run, config, history, run.read_summary() or {}, _video(video, video_note))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{run.shown} holds records that no run writes ({error!r:.200})") from error
    write_output(path, text)


def _page(run: RunDirectory, config: dict[str, Any], history: History, summary: Record, video: str) -> str:
    algorithm, topology = config["algorithm"], config["topology"]
    title = f"{config['environment']} · {algorithm['name']} · {topology['name']}"
    target = config.get("until_score")
    curves = [figures.learning_curve(history, x, target) for x in ("environment_steps", "seconds")]
    flow = [
        figures.over_time(history.progress, "samples_per_insert", "samples per insert", target=set_ratio(algorithm)),
        figures.over_time(history.progress, "staleness", "staleness (updates)"),
    ]
    speed = [
        figures.over_time(history.progress, "steps_per_second", "environment steps per second"),
        figures.over_time(history.progress, "learner_steps_per_second", "learner updates per second"),
    ]
    sections = (
        ("Learning curve", plot_row(curves)),
        ("The policy", video),
        ("Where the time goes", _times(history, summary)),
        ("Replay ratio and staleness", plot_row(flow)),
        ("Gradients", workers_section(summary.get("workers"))),
        ("Precision", precision_section(history)),
        ("Throughput", plot_row(speed)),
        ("Interruptions", _interruptions(history)),
        ("Settings", _settings(config)),
    )
    lead = f"<code>{escape(str(run.shown))}</code>{_machine(summary)}"
    return document(title, lead, _tiles(history, summary), sections)


def _tiles(history: History, summary: Record) -> str:
    """The most important numbers; from the last records if the run has no summary yet."""
    last: Record = {**(history.progress[-1] if history.progress else {}), **summary}
    evaluation: Record = history.evaluations[-1] if history.evaluations else {}
    mean = summary.get("mean_return", evaluation.get("mean_return"))
    spread = summary.get("std_return", evaluation.get("std_return"))
    episodes = summary.get("evaluation_episodes", evaluation.get("episodes"))
    tiles = []
    solved = summary.get("solved")
    if mean is not None:
        shown, _, deviation = score_text(mean, spread).partition(" ± ")
        note = "mean greedy return" + (f" (± {deviation})" if deviation else "")
        note += (f" of {episodes} episodes" if episodes else "") + (earlier_policy(summary) if summary else "")
        tiles.append((shown, note, bool(solved)))
    if solved is not None:
        tiles.append(("yes" if solved else "no", "target score reached", bool(solved)))
    if summary.get("seconds_to_score") is not None:
        tiles.append((duration(summary["seconds_to_score"]), "time to the target score", False))
    tiles += [
        (count(last["environment_steps"]), "environment steps", False),
        (count(last["learner_steps"]), "learner updates", False),
        (count(last["episodes"]), "training episodes", False),
        (duration(last.get("wall_seconds", last.get("seconds", 0.0))), "training time", False),
    ]
    if last.get("samples_per_insert") is not None:
        tiles.append((number(last["samples_per_insert"]), "samples per insert", False))
    if last.get("staleness") is not None:
        tiles.append((number(last["staleness"]), "updates stale" + (", on average" if summary else ""), False))
    if last.get("replay_size") is not None:
        held = f", {size(last['replay_bytes'])}" if last.get("replay_bytes") else ""
        tiles.append((count(last["replay_size"]), f"transitions in replay{held}", False))
    stopped = str(summary.get("stopped_by", "–"))
    tiles.append((stopped, "stopped by" if summary else "no summary: still running, or killed", False))
    return tile_row(tiles)


def set_ratio(algorithm: Record) -> float | None:
    """Samples per insert that a run is held to: a window of R2D2 has half its learned steps in common with the next."""
    ratio, learned = algorithm.get("samples_per_step"), algorithm.get("learned_steps")
    return ratio * (learned // 2) / learned if ratio and learned else ratio


def _times(history: History, summary: Record) -> str:
    parts = []
    acting, learning = ("Acting", "Learning") if summary.get("workers") else ("Actors", "Learner")
    for key, title, names in (("actor_times", acting, ACTOR_TIMES), ("learner_times", learning, LEARNER_TIMES)):
        spent: Mapping[str, float] = summary.get(key) or _mean_shares(history.progress, key, names)
        total = sum(spent.values()) or 1.0
        shares = [
            (name, color, spent.get(name, 0.0) / total)
            for name, color in zip(names, figures.time_colors(names), strict=True)
        ]
        plot = figures.time_shares(history.progress, key, names) if len(history.progress) > 1 else ""
        parts.append(f"<figure><h3>{title}</h3>{share_bar(shares)}{plot}</figure>")
    return f'<div class="plots">{"".join(parts)}</div>'


def _mean_shares(progress: Sequence[Record], key: str, names: Sequence[str]) -> dict[str, float]:
    held = [record[key] for record in progress if record.get(key)]
    return {name: sum(shares.get(name) or 0.0 for shares in held) / max(len(held), 1) for name in names}


def _interruptions(history: History) -> str:
    lines = [
        f"<li>{duration(record['seconds'])}: {escape(str(record.get('role')))} ended "
        f"({escape(str(record.get('reason')))})</li>"
        for record in history.exits
    ]
    lines += [f"<li>{duration(record['seconds'])}: resumed from a checkpoint</li>" for record in history.resumes]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _settings(config: Mapping[str, Any]) -> str:
    run = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    tables = []
    for name, settings in (("run", run), ("topology", config["topology"]), ("algorithm", config["algorithm"])):
        rows = "".join(
            f"<tr><th>{escape(key)}</th><td>{escape(_value(value))}</td></tr>" for key, value in settings.items()
        )
        tables.append(f"<table><caption>{escape(name)}</caption>{rows}</table>")
    return f'<div class="settings">{"".join(tables)}</div>'


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return " ".join(_value(part) for part in value) or "none"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _machine(summary: Record) -> str:
    machine = summary.get("machine") or {}
    parts = [counted(machine["cores"], "core")] if machine.get("cores") else []
    parts += [str(machine[key]) for key in ("processor", "gpu") if machine.get(key)]
    return escape("".join(f" · {part}" for part in parts))


def _video(video: bytes | None, note: str) -> str:
    if video is None:
        return f'<p class="soft">{escape(note)}</p>' if note else ""
    data = base64.b64encode(video).decode("ascii")
    return f'<video controls muted loop playsinline src="data:video/mp4;base64,{data}"></video>'
