"""A run's directory, display and report."""

from headrace.report.display import Display, Heading, PlainDisplay, QuietDisplay, open_display
from headrace.report.progress import Progress
from headrace.report.run_directory import RunDirectory
from headrace.report.run_paths import default_run_directory, make_default_directory

__all__ = [
    "Display",
    "Heading",
    "PlainDisplay",
    "Progress",
    "QuietDisplay",
    "RunDirectory",
    "default_run_directory",
    "make_default_directory",
    "open_display",
]
