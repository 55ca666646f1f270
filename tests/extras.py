"""What a test lacks: with ``pip install --editable '.[test]'``, as for ``make quick``, many packages are missing."""

import re
import tomllib
from functools import cache
from importlib.util import find_spec

from repository import ROOT


@cache
def sources() -> dict[str, str]:
    """From the name of a package to what installs it: the first extra that brings it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = {"structattn_papers": "papers"}
    for extra, requirements in project["optional-dependencies"].items():
        for requirement in requirements:
            name = re.match(r"[\w-]+", requirement)[0].replace("-", "_")
            sources.setdefault(name, f"'.[{extra}]'")
    return sources


def missing_extra(error: BaseException | None) -> str | None:
    """What to install, if an error is due to a package of an extra that is not installed.

    Example:
        >>> missing_extra(ValueError()) is None, missing_extra(ImportError(name="pytest.mark")) is None
        (True, True)
    """
    while error is not None:
        package = (getattr(error, "name", None) or "").partition(".")[0] if isinstance(error, ImportError) else ""
        if package in sources() and find_spec(package) is None:
            return f"needs {package}: pip install --editable {sources()[package]}"
        error = error.__cause__ or error.__context__
    return None
