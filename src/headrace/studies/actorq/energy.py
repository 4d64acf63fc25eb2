"""What the processor's packages have consumed, where the machine says so."""

import os
from pathlib import Path

__all__ = ["Energy"]

_POWERCAP = Path("/sys/class/powercap")
_MICRO = 1e-6


class Energy:
    """RAPL's counters of the packages, all that runs on them together: ours and everybody else's.

    `why_not` says why they can't be read, and is empty where they can.
    """

    def __init__(self, folder: Path = _POWERCAP) -> None:
        packages = sorted(folder.glob("intel-rapl:[0-9]*")) if folder.is_dir() else []
        self._packages = [package for package in packages if package.name.count(":") == 1]  # two are parts of one
        self.why_not = ""
        if not self._packages:
            self.why_not = f"{folder} has no intel-rapl package: the processor, or what runs this machine, hides it"
        for package in self._packages:
            if not os.access(package / "energy_uj", os.R_OK):
                self.why_not = f"{package / 'energy_uj'} can be read by root alone"

    def joules(self) -> list[float]:
        """Each package's counter, for since(); empty where there is none."""
        return [] if self.why_not else [_read(package / "energy_uj") for package in self._packages]

    def since(self, before: list[float]) -> float | None:
        """Joules of all packages since joules() gave `before`; None where they can't be read.

        A counter that reached its end meanwhile has begun at 0 again, once at most.
        """
        if self.why_not:
            return None
        spent = 0.0
        for package, begin, end in zip(self._packages, before, self.joules(), strict=True):
            spent += end - begin if end >= begin else end - begin + _read(package / "max_energy_range_uj")
        return spent


def _read(path: Path) -> float:
    return int(path.read_text()) * _MICRO
