"""Code in README and docs: Python compiles, commands and their flags exist."""

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import headrace
from headrace.cli.main import main

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(path for folder in ("benchmarks", "docs", "examples", "src") for path in sorted((ROOT / folder).rglob("*.md"))),
]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
WITH_ENVIRONMENT = ("train", "learner", "tune", "check")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The words after `headrace` of every command in shell blocks and in the text."""
    found = []
    for block in blocks(page, "sh"):
        lines = block.replace("\\\n", " ").splitlines()
        found += [match[1] for line in lines for match in re.finditer(r"(?:^|&& |; |\()headrace (.*)", line)]
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found += [re.sub(r"\s+", " ", code) for code in re.findall(r"`headrace ([a-z]+\s[^`]*)`", text)]
    return [_words(command) for command in found]


def _words(command: str) -> list[str]:
    """The words of one command, without comment, redirection and what follows it in a pipe.

    The text may leave out an environment, and call a study NAME.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>)")
    lexer.commenters = "#"
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("|&;<>)"):
            break
        words.append("in-network" if words == ["study"] and word == "NAME" else word)
    return (
        [words[0], "ENV", *words[1:]]
        if words[0] in WITH_ENVIRONMENT and words[1:2] != [] and words[1][0] == "-"
        else words
    )


def test_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text `headrace evaluate RUN\n--episodes 5` and `headrace train --seed 1`, not `headrace stats`.\n\n"
        "```sh\nheadrace train A --steps 5 \\\n  --seed 1  # why\nmake x && headrace report RUN | tail > file\n```\n"
    )
    assert commands(page) == [
        ["train", "A", "--steps", "5", "--seed", "1"],
        ["report", "RUN"],
        ["evaluate", "RUN", "--episodes", "5"],
        ["train", "ENV", "--seed", "1"],
    ]


@each_page
def test_python_compiles_and_names_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)
        names = re.findall(r"(?<![\w/.])headrace\.([A-Za-z]\w*)", block)
        assert [name for name in names if not hasattr(headrace, name)] == []


@each_page
def test_toml_can_be_read(page: Path) -> None:
    for block in blocks(page, "toml"):
        tomllib.loads(block)


@each_page
def test_commands_have_the_flags_that_are_shown(page: Path, monkeypatch, capsys) -> None:
    """Every command reads its flags up to the point at which their values are converted."""

    def accept(*_arguments: object, **_options: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr("headrace.cli.arguments.tyro.cli", accept)
    refused = []
    for words in commands(page):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
        if code:
            refused.append((shlex.join(words), capsys.readouterr().err))
    assert refused == []
