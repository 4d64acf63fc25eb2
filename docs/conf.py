"""The documentation site: the Markdown pages here, the Python interface, and pages of studies (`make docs`)."""

import os
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from headrace.cli.main import main
from headrace.studies.catalogue import STUDIES

ROOT = Path(__file__).parent.parent

project = "Headrace"
author = "The authors of Headrace"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["images"]
default_role = "literal"  # docstrings are Markdown in this respect

html_theme = "furo"
html_title = "Headrace"
html_copy_source = False
STUDY_PAGES = ROOT / "build/study-pages"
STUDY_PAGES.mkdir(parents=True, exist_ok=True)
html_extra_path = [str(STUDY_PAGES)]

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True


PAGES = {"benchmarks": "benchmarks/README.md", "changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
"""Pages of the site that are files outside this folder."""


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Reads PAGES from where they are, and makes links of all pages fit the site.

    Links to folders outside the site become their names, those to files downloads. A missing target stays: an error.
    """
    docs = Path(app.srcdir)
    origin = ROOT / PAGES[name] if name in PAGES else docs / f"{name}.md"
    titles = {ROOT / path: docs / f"{page}.md" for page, path in PAGES.items()}

    def replace(match: re.Match[str]) -> str:
        text, target, anchor = match[1], (origin.parent / match[2]).resolve(), match[3] or ""
        if target.is_dir():
            return text if "`" in text else f"{text} (`{target.relative_to(ROOT)}`)"
        path = os.path.relpath(titles.get(target, target), (docs / name).parent)
        return f"[{text}]({path}{anchor})"

    text = origin.read_text()
    source[0] = re.sub(r"\[([^]]+)\]\(([^):#]+)(#[^)]*)?\)", replace, text)


def render_studies(app: Sphinx) -> None:
    """Makes the page of each study from its committed CSV files, in a copy of their folder."""
    if app.builder.format != "html":
        return
    for study in STUDIES:
        folder = ROOT / "build/study-files" / study.name
        shutil.copytree(ROOT / "benchmarks/results" / study.name, folder, dirs_exist_ok=True)
        if main(["study", study.name, "--render", str(folder)]):
            raise ExtensionError(f"the page of study {study.name} can't be made")
        (STUDY_PAGES / "studies").mkdir(exist_ok=True)
        shutil.copy(folder / f"{study.name}.html", STUDY_PAGES / "studies")


def escape(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Makes characters of docstrings that reStructuredText would interpret plain text."""
    lines[:] = ["`".join(re.sub(r"([*|])", r"\\\1", part) if index % 2 == 0 else part
                         for index, part in enumerate(line.split("`"))) for line in lines]  # fmt: skip


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", render_studies)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", escape)
