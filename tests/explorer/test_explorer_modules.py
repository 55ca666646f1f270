"""The modules of the page: short, without circles, and joined to one script in which every name is declared once."""

import re
from importlib import resources

import pytest

from structattn.explorer.explorer_page import SCRIPT

MODULES = {
    file.name: file.read_text(encoding="utf-8")
    for file in resources.files("structattn.explorer").joinpath("page").iterdir()
    if file.name.endswith(".js")
}
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r'^import \{ ?([^}]*?),? ?\} from "\./(\w+\.js)";$', re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short_says_what_it_holds_and_imports_what_is_exported(name: str) -> None:
    text = MODULES[name]
    assert text.startswith("/** ")
    assert text.count("\n") <= 350
    for names, source in IMPORTED.findall(text):
        for imported in re.split(r",\s*", names):
            assert re.search(rf"(?m)^export (async )?(const|let|function|class) {imported}\b", MODULES[source])


CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", re.DOTALL)  # what is not code: comments and strings
EXPORTS = {
    name: source
    for source, text in MODULES.items()
    for name in re.findall(r"(?m)^export (?:async )?(?:const|let|function|class) (\w+)", text)
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_what_it_uses_and_nothing_else(name: str) -> None:
    """Joined, it would find the names of all others too."""
    text = MODULES[name]
    imported = {one for names, _ in IMPORTED.findall(text) for one in re.split(r",\s*", names)}
    body = CODE.sub("", IMPORTED.sub("", text)).replace("...", " ")
    assert imported <= set(re.findall(r"(?<!\.)\b\w+", body))
    methods = set(re.findall(r"(?m)^  (?:async |get )?(\w+)\(", body))
    called = set(re.findall(r"(?<!\.)\b(?:new )?(\w+)\(", body)) - methods
    assert {one for one in called if EXPORTS.get(one, name) != name} <= imported


def test_every_module_is_part_of_the_script_and_no_name_is_declared_twice() -> None:
    names = [name for text in MODULES.values() for name in DECLARED.findall(text)]
    assert sorted(names) == sorted(DECLARED.findall(SCRIPT))
    assert len(set(names)) == len(names)
    assert not re.search("^import ", SCRIPT, re.MULTILINE)
