"""Refuses odd words in everything that the project writes; words.txt lists them with their replacements.

Usage: check_words.py [FILE ...]; without files, all tracked text. Prints a line for each hit; status 1 if there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

_WORDS = Path(__file__).with_name("words.txt")
_SUFFIXES = {"", ".py", ".pyi", ".h", ".cc", ".c", ".md", ".css", ".toml", ".txt", ".yml"}
_EXCLUDED = ("LICENSE", "benchmarks/results/", "constraints.txt", "scripts/words.txt")
_BREAK = r"""\s*["']?\s+(?:(?:#|//|\*)\s+|f?["'])?"""  # space, or a line break in a comment or between string literals


def listed_words() -> dict[str, str]:
    """The replacement for each word or phrase of the list."""
    replacements: dict[str, str] = {}
    for line in _WORDS.read_text().splitlines():
        if line and not line.startswith("#"):
            words, replacement = line.split(" -> ")
            replacements |= dict.fromkeys(words.split(" | "), replacement)
    return replacements


def hits(path: Path, replacements: dict[str, str]) -> list[str]:
    """One line for each refused word of a file, in the order of the text."""
    text = path.read_text()
    lower = text.lower()
    found = []
    for word, replacement in replacements.items():
        if max(re.split(r"[ *]", word), key=len) in lower:  # a search by pattern is slow
            for match in re.finditer(_pattern(word), text, re.IGNORECASE):
                line = text.count("\n", 0, match.start()) + 1
                found.append((line, f"{path}:{line}: {re.sub(_BREAK, ' ', match[0])} -> {replacement}"))
    return [hit for _, hit in sorted(found)]


def _pattern(word: str) -> str:
    parts = [re.escape(part).replace(r"\*", r"[^\W\d]*") for part in word.split()]
    before = r"(?<![\w@-])" if word[0] != "," else ""
    return rf"{before}{_BREAK.join(parts)}(?![\w-]|'s)"


def tracked_texts() -> list[Path]:
    """All tracked files with text that the project writes."""
    names = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [Path(name) for name in names if name and not name.startswith(_EXCLUDED)]
    return [path for path in paths if path.suffix in _SUFFIXES and path.is_file()]


def main() -> int:
    """Checks the files that the arguments name, or all; returns the exit status."""
    replacements = listed_words()
    paths = [Path(name) for name in sys.argv[1:]] or tracked_texts()
    found = [hit for path in paths for hit in hits(path, replacements)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
