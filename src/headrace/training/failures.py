"""What a user is told of exceptions in training: one line each; their tracebacks go to a log of the run."""

import contextlib
import traceback
from collections.abc import Callable, Iterator

from headrace.errors import EnvironmentFault, HeadraceError, LaunchError, error_line
from headrace.report.display import Display
from headrace.report.run_directory import RunDirectory
from headrace.training.checkpoint import has_checkpoint

__all__ = ["Failures"]


class Failures:
    """Exceptions that are not Headrace's own: of environments, networks, launchers and callbacks of a user."""

    def __init__(self, run: RunDirectory, display: Display) -> None:
        self._run = run
        self._display = display

    @property
    def continuation(self) -> str:
        """What to do after a failure, at the end of its message."""
        return "; headrace resume continues from the checkpoint" if has_checkpoint(self._run.checkpoints_path) else ""

    @contextlib.contextmanager
    def in_one_line(self) -> Iterator[None]:
        """A context in which such an exception becomes a `LaunchError`."""
        try:
            yield
        except HeadraceError:
            raise
        except Exception as error:
            raise LaunchError(f"training failed: {self._logged(error)}{self.continuation}") from error

    def tell(self, end: Callable[[], None]) -> None:
        """Ends a part of the run, whose own mistakes are only told: everything important is done."""
        try:
            end()
        except EnvironmentFault as fault:
            self._display.message(str(fault))
        except HeadraceError:
            raise
        except Exception as error:
            self._display.message(f"the run did not end as it should: {self._logged(error)}")

    def _logged(self, error: Exception) -> str:
        """The error as a line that names the log of its traceback."""
        log = self._run.logs_path / "training.log"
        with contextlib.suppress(OSError):  # the error itself matters more
            log.parent.mkdir(exist_ok=True)
            log.write_text("".join(traceback.format_exception(error)))
        return f"{error_line(error)}; where: {log}"
