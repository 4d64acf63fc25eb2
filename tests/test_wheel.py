"""scripts/test_wheel.py refuses a wheel with other files than the package's."""

import importlib.util
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
METADATA = ["headrace-0.1.0.dist-info/METADATA", "headrace-0.1.0.dist-info/licenses/LICENSE"]
MODULE = "headrace/_native.cpython-312-x86_64-linux-gnu.so"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("test_wheel_script", ROOT / "scripts/test_wheel.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    command = ["git", "ls-files", "src/headrace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [name.removeprefix("src/") for name in done.stdout.splitlines()]


def write_wheel(path: Path, names: Iterable[str]) -> Path:
    wheel = path / "headrace-0.1.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name in names:
            file.writestr(name, "")
    return wheel


def test_the_files_of_the_package_pass(script: ModuleType, tracked: list[str], tmp_path: Path) -> None:
    assert "headrace/dashboard/assets/runs.html" in tracked
    script.check_contents(write_wheel(tmp_path, [*tracked, MODULE, *METADATA]))


@pytest.mark.parametrize(
    "other",
    [
        "headrace.libs/libstdc++.so.6",
        "headrace/_other.so",
        "headrace/_native.abi3.so",
        "headrace/native.cpp",
        "tests/a.py",
        "other-1.0.dist-info/METADATA",
    ],
)
def test_another_file_is_refused(script: ModuleType, tracked: list[str], tmp_path: Path, other: str) -> None:
    with pytest.raises(SystemExit, match=other.replace("+", r"\+")):
        script.check_contents(write_wheel(tmp_path, [*tracked, MODULE, *METADATA, other]))


@pytest.mark.parametrize("gone", ["headrace/dashboard/assets/uPlot.LICENSE", "headrace/py.typed", MODULE])
def test_a_missing_file_is_refused(script: ModuleType, tracked: list[str], tmp_path: Path, gone: str) -> None:
    names = [name for name in (*tracked, MODULE, *METADATA) if name != gone]
    with pytest.raises(SystemExit, match="missing" if gone != MODULE else "native modules \\[\\]"):
        script.check_contents(write_wheel(tmp_path, names))
