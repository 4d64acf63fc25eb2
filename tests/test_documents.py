"""README and docs say what is there: flags, files, presets."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from headrace.algorithms.dqn.config import DQN
from headrace.settings import PRESETS
from headrace.topologies.config import Apex, Serial

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PARTS: dict[str, Any] = {"algorithm": DQN(), "apex": Apex(), "serial": Serial()}


def show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def row(label: str, usual: Any, values: list[Any]) -> str:
    cells = [show(value) if value != usual else "·" for value in values]
    return f"| {label} | {show(usual) if usual is not None else '·'} | {' | '.join(cells)} |"


def preset_rows() -> list[str]:
    """The rows of the presets' table: each setting in which any preset leaves the default."""
    rows = [row("`--steps`", None, [preset.steps for preset in PRESETS.values()])]
    for part, default in PARTS.items():
        for field in fields(default):
            usual = getattr(default, field.name)
            values = [getattr(getattr(preset, part), field.name) for preset in PRESETS.values()]
            label = f"`--{field.name.replace('_', '-')}`" + ("" if part == "algorithm" else f" ({part})")
            rows += [row(label, usual, values)] if any(value != usual for value in values) else []
    return rows


def test_presets_are_those_of_the_page() -> None:
    page = (ROOT / "docs/algorithms/dqn.md").read_text()
    table = page.split("## Presets")[1].split("\n## ")[0]
    assert [line for line in table.splitlines() if line.startswith("| `--")] == preset_rows()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
