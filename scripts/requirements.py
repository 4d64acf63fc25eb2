"""Prints the packages that a build of Headrace without isolation needs: build tools, dependencies, and extras.

Usage: requirements.py [EXTRA ...]; with --build-tools alone, only these.
"""

import re
import sys
import tomllib
from pathlib import Path

BUILD_TOOLS = ["cmake>=3.24", "ninja"]


def requirements(project: dict, extras: list[str]) -> list[str]:
    """The project's dependencies and those of its extras, which may name other extras of the project."""
    found = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(.+)\]", requirement)
            found += requirements(project, own[1].split(",")) if own else [requirement]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    wanted = [*settings["build-system"]["requires"], *BUILD_TOOLS]
    if sys.argv[1:] != ["--build-tools"]:
        wanted += requirements(settings["project"], sys.argv[1:])
    print("\n".join(wanted))
