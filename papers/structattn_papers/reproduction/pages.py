"""The pages that are generated from records, in part or as a whole."""

import os
from pathlib import Path

from structattn.errors import ConfigError
from structattn_papers.reproduction.published import PUBLISHED, reproduction_page
from structattn_papers.reproduction.tables import Evidence, fill, read_tables

REPRODUCTION = "docs/evidence/reproduction.md"


def generated_pages(papers: str | os.PathLike[str] = "papers") -> dict[Path, str]:
    """Every page with generated parts and every picture, with their present content.

    Paths begin with the folder that contains ``papers``.

    Raises:
        ConfigError: if the folder does not exist, or a page lacks the marks of a table; for a malformed description, or
            an unknown row.
    """
    if not Path(papers).is_dir():
        raise ConfigError(f"{papers}: expected the folder of the papers (--papers)")
    evidence, root = Evidence(papers), Path(papers).parent
    pages: dict[Path, str] = {}
    for table in read_tables(papers):
        path = root / table.page
        page = pages[path] if path in pages else path.read_text(encoding="utf-8")
        pages[path] = fill(page, table.name, table.markdown(evidence), path)
        picture = table.picture(evidence)
        if table.curve is not None and picture is not None:
            pages[root / table.curve["file"]] = picture
    if any(Path(papers).glob(f"*/{PUBLISHED}")):
        pages[root / REPRODUCTION] = reproduction_page(papers, evidence)
    return pages
