"""Vectors that are updated less often than another one."""

from headrace.gradients.base import ParameterVector

__all__ = ["Delay"]


class Delay:
    """Decides when a delayed vector is due: once for every `period` updates of a leading one.

    Source: Fujimoto et al. 2018, section 5.2. Both vectors count the updates of all workers, so that workers keep the
    period together, in whichever order they pull and apply, and also where gradients are dropped or summed.
    """

    def __init__(self, leading: ParameterVector, delayed: ParameterVector, period: int) -> None:
        self._leading = _Counted(leading)
        self._delayed = _Counted(delayed)
        self._period = period

    def due(self) -> bool:
        """Whether, after the next update of the leading vector, the delayed one has fewer than are due."""
        return self._delayed.updates < (self._leading.updates + 1) // self._period

    def apply(self, *, delayed: bool) -> None:
        """Applies the gradient of the leading vector, and that of the delayed one if it is `delayed`."""
        self._leading.apply()
        if delayed:
            self._delayed.apply()


class _Counted:
    """A vector's updates as far as they are known: workers that fetch rarely learn of newer ones as they apply."""

    def __init__(self, vector: ParameterVector) -> None:
        self._vector = vector
        self._fetched = self._applied = -1

    @property
    def updates(self) -> int:
        """Those of the last fetch, or of an update since."""
        return self._applied if self._vector.version == self._fetched else self._vector.version

    def apply(self) -> None:
        """Applies the gradient."""
        self._fetched = self._vector.version
        self._applied = self._vector.apply().version
