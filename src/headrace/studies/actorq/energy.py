"""Energy consumption of the processor's packages, if the machine provides it."""

import os
from pathlib import Path

__all__ = ["Energy"]

_POWERCAP = Path("/sys/class/powercap")
_MICRO = 1e-6


class Energy:
    """RAPL's counters of the packages, which include all processes on the machine.

    `why_not` says why the counters can't be read; it is empty if they can.
    """

    def __init__(self, folder: Path = _POWERCAP) -> None:
        packages = sorted(folder.glob("intel-rapl:[0-9]*")) if folder.is_dir() else []
        self._packages = [package for package in packages if package.name.count(":") == 1]  # two are parts of a package
        self.why_not = ""
        if not self._packages:
            self.why_not = f"{folder} has no intel-rapl package: the processor, or what runs this machine, hides it"
        for package in self._packages:
            if not os.access(package / "energy_uj", os.R_OK):
                self.why_not = f"{package / 'energy_uj'} can be read by root alone"

    def joules(self) -> list[float]:
        """Each package's counter, for since(); empty if there is none."""
        return [] if self.why_not else [_read(package / "energy_uj") for package in self._packages]

    def since(self, before: list[float]) -> float | None:
        """Joules of all packages since joules() returned `before`; None if they can't be read.

        A counter may have wrapped around to 0 meanwhile, at most once.
        """
        if self.why_not:
            return None
        spent = 0.0
        for package, begin, end in zip(self._packages, before, self.joules(), strict=True):
            spent += end - begin if end >= begin else end - begin + _read(package / "max_energy_range_uj")
        return spent


def _read(path: Path) -> float:
    return int(path.read_text()) * _MICRO
