"""Trains a policy and saves the last live board of the training as the SVG picture of README.md."""

import argparse
import contextlib
import io
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from headrace import training
from headrace.cli.ending import conclude
from headrace.report.display import Heading, QuietDisplay
from headrace.report.live import LiveDisplay
from headrace.report.progress import Progress
from headrace.report.run_directory import RunDirectory
from headrace.report.run_paths import default_run_directory
from headrace.settings import RunConfig, preset

CELLS = 100

# rich's template loads a font from the web. This one uses the reader's fonts; each text has its width in cells.
TEMPLATE = """\
<svg viewBox="-9 -25 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font: {char_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace;
  white-space: pre;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect fill="#0d1117" x="-9" y="-25" width="{width}" height="{height}" rx="8"/>
<g clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

THEME = TerminalTheme(
    background=(13, 17, 23),
    foreground=(230, 237, 243),
    normal=[
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    bright=[(139, 148, 158)] * 8,
)


class BoardPicture(QuietDisplay):
    """Draws the live board on a recording console and keeps the newest one as SVG while training runs."""

    def __init__(self, heading: Heading) -> None:
        self.svg = ""
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system="truecolor", width=CELLS, record=True
        )
        self._live = LiveDisplay(heading, self._console)

    def update(self, progress: Progress) -> None:
        """Redraws the board; the recording contains only this one."""
        self._console.export_text(clear=True)
        self._live.update(progress)
        working = sum(progress.actor_times.values()) and sum(progress.learner_times.values())
        if progress.evaluation_return is not None and not progress.paused and working:
            self.svg = self._console.export_svg(theme=THEME, code_format=TEMPLATE, unique_id="board")

    def close(self) -> None:
        """Stops the live display."""
        self._live.close()


def main() -> None:
    """Trains and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", nargs="?", default="LunarLander-v3")
    parser.add_argument("--until-score", type=float, default=200.0)
    parser.add_argument("--output", type=Path, default=Path("docs/images/board.svg"))
    arguments = parser.parse_args()
    known = preset(arguments.environment)
    config = RunConfig(
        arguments.environment,
        known.algorithm,
        known.topology(known.topology_name),
        until_score=arguments.until_score,
        evaluation_period_seconds=5.0,
    )
    path = default_run_directory(config.environment, config.algorithm.name, datetime.now())
    heading = Heading(config.environment, config.algorithm.name, config.topology.name, str(path))
    with (
        RunDirectory.create(path, config.to_json()) as directory,
        contextlib.closing(BoardPicture(heading)) as picture,
    ):
        result = training.train(config, directory, picture)
    conclude(result)
    arguments.output.write_text(picture.svg)
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
