"""scripts/check_words.py refuses the listed words, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def check(path: Path) -> tuple[int, list[str]]:
    command = [sys.executable, ROOT / "scripts/check_words.py", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def joined(text: str) -> str:
    """The text without its bars, which keep refused words out of this file."""
    return text.replace("|", "")


def test_every_listed_word_is_refused(tmp_path: Path) -> None:
    lines = [line.split(" -> ") for line in (ROOT / "scripts/words.txt").read_text().splitlines() if " -> " in line]
    listed = [(word.replace("*", ""), replacement) for words, replacement in lines for word in words.split(" | ")]
    page = tmp_path / "page.md"
    page.write_text("".join(f"here{'' if word[0] == ',' else ' '}{word}.\n" for word, _ in listed))
    found = [f"{page}:{line}: {word} -> {replacement}" for line, (word, replacement) in enumerate(listed, start=1)]
    assert check(page) == (1, found)


def test_phrases_are_refused_in_any_case_and_across_lines(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(joined('# A process o|f\n# ITS own; its Col|ours.\nTEXT = "a core o|f "\n    f"its own"\n'))
    found = ["1: o|f ITS own -> its, separate", "2: Col|ours -> color", "3: o|f its own -> its, separate"]
    assert check(source) == (1, [joined(f"{source}:{line}") for line in found])


@pytest.mark.parametrize(
    "text",
    ["a color, its center and --dueling\n", "--du|elling\n", "unix:@no|body\n", "a claim that holds the ru|n's name\n"],
)
def test_other_words_flags_and_addresses_pass(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(joined(text))
    assert check(page) == (0, [])
