"""``structattn reproduce tables``: the generated parts of pages, from the records of runs."""

from collections.abc import Iterator

from structattn.errors import ConfigError
from structattn.files.replacing import replace_text
from structattn_papers import reproduction


def command(*, papers: str = "papers", check: bool = False) -> Iterator[str]:
    """Write the tables that papers/tables.yaml describes into their pages, and the reproduction page.

    Args:
        papers: folder of the papers; pages are beside it.
        check: only say which pages differ from their records.
    """
    pages = reproduction.generated_pages(papers)
    changed = [path for path, text in pages.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if check and changed:
        names = ", ".join(map(str, changed))
        raise ConfigError(f"{names}: out of date with the records; run structattn reproduce tables")
    for path in changed:
        with replace_text(path) as stream:
            stream.write(pages[path])
        yield f"{path}: written"
    if not changed:
        yield "all pages are up to date with their records"
