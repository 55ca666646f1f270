"""The licence texts of everything in a wheel are in it, and versions that cannot be installed are not allowed."""

import tomllib

from packaging.requirements import Requirement

from repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TITLES = {
    "Apache-2.0": "Apache License",
    "CC-BY-SA-4.0": "Creative Commons Attribution-ShareAlike 4.0 International Public License",
}


def test_every_licence_of_the_expression_has_its_text() -> None:
    texts = [" ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in PROJECT["license-files"]]
    for name in PROJECT["license"].split(" AND "):
        assert any(TITLES[name] in text for text in texts), name
    assert len(texts) == len(TITLES)


def test_the_lowest_yaml_has_wheels_for_every_python() -> None:
    (yaml,) = (each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "pyyaml")
    assert not yaml.specifier.contains("6.0")
    assert yaml.specifier.contains("6.0.1")
