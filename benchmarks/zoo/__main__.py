"""Every preset with many seeds, next to other libraries; the page about it; the policies that Headrace comes with.

    python -m benchmarks.zoo [--seeds 10] [--systems apex serial ...] [--only CartPole-v1 ...]
    python -m benchmarks.zoo --page
    python -m benchmarks.zoo --keep

A row is added to benchmarks/results/zoo/runs.csv for each run as soon as it ends; started again, it measures what is
missing. --page writes docs/zoo.md and its plot from that file, --keep the policies of zoo:NAME. Exit status 1: a preset
missed its required score, or a task has no policy. 2: something is not installed, or a run failed.
"""

from benchmarks.measure import make_parser, positive, positive_number, require, run
from benchmarks.zoo.runs import measure
from benchmarks.zoo.tasks import HEADRACE, OTHERS, TASKS


def main() -> int:
    """Does what the arguments say; returns the exit status."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=positive, default=10, help="seeds 0 .. N-1")
    parser.add_argument("--systems", nargs="+", choices=(*HEADRACE, *OTHERS), default=(*HEADRACE, *OTHERS))
    parser.add_argument("--only", nargs="+", metavar="TASK", choices=[task.name for task in TASKS], default=())
    parser.add_argument("--time-limit", type=positive_number, default=600.0, help="training seconds of each run")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--page", action="store_true", help="measure nothing, and write the page")
    instead.add_argument("--keep", action="store_true", help="measure nothing, and put policies into the package")
    options = parser.parse_args()
    if options.keep:
        from benchmarks.zoo.keep import keep

        return keep()
    if options.page:
        require("rliable")
        from benchmarks.zoo.page import write_page

        write_page()
        return 0
    return measure(options.seeds, options.systems, options.only, options.time_limit)


if __name__ == "__main__":
    run(main)
