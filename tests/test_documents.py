"""README and docs agree with the code: flags, files, presets."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.algorithms.registry import ALGORITHMS
from headrace.settings import presets_of
from headrace.studies.catalogue import STUDIES
from headrace.topologies.apex import Apex
from headrace.topologies.serial import Serial

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(show, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def row(label: str, usual: Any, values: list[Any]) -> str:
    cells = [show(value) if value != usual else "·" for value in values]
    return f"| {label} | {show(usual) if usual is not None else '·'} | {' | '.join(cells)} |"


def preset_table(algorithm: str, *, frugal: bool = False) -> list[str]:
    """The head and the rows of an algorithm's presets: each setting in which any of them leaves the default."""
    default = ALGORITHMS.find(algorithm)()
    presets = presets_of(algorithm, frugal=frugal)
    lines = [
        f"| | default | {' | '.join(presets)} |",
        row("`--steps`", None, [each.steps for each in presets.values()]),
    ]
    parts: dict[str, Any] = {"algorithm": default, "apex": Apex(), "serial": Serial()}
    if default.replay is None:
        del parts["apex"]
    for part, default in parts.items():
        for field in fields(default):
            usual = getattr(default, field.name)
            chosen = [each.algorithm if part == "algorithm" else each.topology(part) for each in presets.values()]
            values = [getattr(each, field.name) for each in chosen]
            label = f"`--{field.name.replace('_', '-')}`" + ("" if part == "algorithm" else f" ({part})")
            lines += [row(label, usual, values)] if any(value != usual for value in values) else []
    return lines


@pytest.mark.parametrize("algorithm", ALGORITHMS.built_in)
def test_presets_are_those_of_the_page(algorithm: str) -> None:
    page = (ROOT / f"docs/algorithms/{algorithm.replace('-', '_')}.md").read_text()
    table = page.split("## Presets")[1].split("\n## ")[0]
    assert [line for line in table.splitlines() if line.startswith(("| | ", "| `--"))] == preset_table(algorithm)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS.built_in if presets_of(name, frugal=True)])
def test_frugal_presets_are_those_of_the_page(algorithm: str) -> None:
    page = (ROOT / f"docs/algorithms/{algorithm.replace('-', '_')}.md").read_text()
    table = page.split("## Frugal presets")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith(("| | ", "| `--"))]
    assert lines == [line for line in preset_table(algorithm, frugal=True) if "(apex)" not in line]


def test_the_python_interface_has_every_exported_name() -> None:
    page = (ROOT / "docs/api.md").read_text()
    documented = re.findall(r"^\.\. auto\w+:: headrace\.(\w+)$", page, re.MULTILINE)
    inherited = {"HeadraceError"}  # in errors
    assert sorted(documented) == sorted({*headrace.__all__} - inherited)


def test_the_site_has_every_page_once() -> None:
    listed = re.findall(
        r"^[\w/]+$", "".join((ROOT / "docs/index.md").read_text().split("```{toctree}")[1:]), re.MULTILINE
    )
    pages = [str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted({*pages} - {"index"})


def test_the_site_has_every_study_and_example() -> None:
    page = (ROOT / "docs/studies.md").read_text()
    assert sorted(re.findall(r'href="studies/([\w-]+)\.html"', page)) == sorted(study.name for study in STUDIES)
    shown = re.findall(r"^```{literalinclude} \.\./(\S+)$", (ROOT / "docs/examples.md").read_text(), re.MULTILINE)
    programs = [str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.py")]
    assert sorted(shown) == sorted(programs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", page.read_text())
    links = re.findall(r"\]\(([^)#:]+)\)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda picture: picture.name)
def test_pictures_load_nothing_from_a_host(picture: Path) -> None:
    """The name of SVG's namespace is the only address in them."""
    addresses = re.findall(r"\w+://[^\"') ]+", picture.read_text())
    assert set(addresses) == {"http://www.w3.org/2000/svg"}


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 900
