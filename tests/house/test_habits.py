"""Nouns as names, verbs as functions, short docstrings inside, one file name for one thing; ``make habits`` lists."""

import collections

import habits

#: Functions whose result is what their name says: the labels of a batch, the loss of a model.
MAX_NAMED_OF = 24


def test_variables_are_nouns() -> None:
    measures = list(habits.measure())
    pronouns = sum(sum(file.pronouns.values()) for file in measures)
    assert pronouns <= 0.005 * sum(file.names for file in measures)


def test_docstrings_inside_have_at_most_three_lines() -> None:
    assert sum(len(file.long_docstrings) for file in habits.measure()) <= 60


def test_packages_export_what_users_need() -> None:
    assert len(habits.exported()) <= 350


def test_a_file_name_tells_the_file() -> None:
    names = collections.Counter(path.name for path in habits.files() if path.name not in {"__init__.py", "__main__.py"})
    assert not [name for name, count in names.items() if count > 1]


def test_functions_are_verbs() -> None:
    assert (
        len({name for path in habits.files() for name in habits.functions(path) if name.endswith("_of")})
        <= MAX_NAMED_OF
    )
