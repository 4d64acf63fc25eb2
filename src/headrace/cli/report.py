"""`headrace report`: writes one HTML page about a run, with a video of its policy if possible."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.arguments import Run, parse
from headrace.cli.evaluate import MAX_VIDEO_STEPS
from headrace.errors import CheckpointError, HeadraceError
from headrace.report import RunDirectory
from headrace.report.run_paths import require_output
from headrace.report.video import require_video, write_video

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    run: Run
    """Run directory."""
    output: Path | None = None
    """File to write; RUN/report.html if not set."""
    video: bool = True
    """Include a video of an episode."""


def run(arguments: Sequence[str]) -> int:
    """Writes the report; returns the exit code."""
    options = parse(_Options, arguments, prog="headrace report", description="Write a run's report, one HTML page.")
    directory = RunDirectory.open(options.run)
    output = options.output or options.run / "report.html"
    require_output("output", output, ".html")
    if not directory.metrics_path.exists():
        raise CheckpointError(f"{options.run} has no records yet; there is nothing to report")
    video, note = None, ""
    if options.video:
        try:
            video = _record(directory)
        except HeadraceError as error:  # a report without a video is still a report
            note = f"No video: {error}"
            print(note)
    from headrace.report.page import write_report

    write_report(directory, output, video, note)
    print(f"wrote {output}")
    return 0


def _record(directory: RunDirectory) -> bytes:
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        path = Path(folder) / "policy.mp4"
        require_video(path)
        from headrace import training

        with training.record_frames(directory, max_steps=MAX_VIDEO_STEPS) as (frames, fps):
            write_video(frames, path, fps)
        return path.read_bytes()
