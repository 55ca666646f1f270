"""Python functions as phrase trees over their tokens, and the distance of two tokens in the tree, drawn beside it.

A phrase is a node of ``ast``: it spans the tokens of all nodes below it, so a token hangs from the deepest node that
covers it. Such trees are what ``ConstituencyDistance``, ``LearntTable(heads, "constituency")`` and ``TreeTransformer``
read.
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

import structattn as sa

Place = tuple[int, int]  # line, from 1, and character in it
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)


def read_tokens(source: str) -> list[tokenize.TokenInfo]:
    """The tokens of a program that are words of it: no comments, indentation or ends of lines."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token for token in tokens if token.type not in _LAYOUT and token.string]


def find_span(node: ast.AST, lines: Sequence[bytes]) -> tuple[Place, Place] | None:
    """From where to where a node and all nodes below it reach; ``None`` for operators and contexts, without a place.

    ``ast`` counts bytes of UTF-8, ``tokenize`` characters. The place of a function begins after its decorators, and
    arguments and comprehensions have none of their own, but the nodes below them do.
    """
    spans = [span for child in children(node) if (span := find_span(child, lines))]
    if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias | ast.excepthandler | ast.pattern):
        last_line, last_byte = node.end_lineno or node.lineno, node.end_col_offset or 0
        spans.append(
            (
                (node.lineno, len(lines[node.lineno - 1][: node.col_offset].decode())),
                (last_line, len(lines[last_line - 1][:last_byte].decode())),
            )
        )
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node; those inside of an f-string are left out, as before Python 3.12 it is one token."""
    return iter(()) if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node)


def phrase_tree(source: str) -> sa.ConstituencyTree:
    """The phrase tree of a program; a node that covers one token only, such as a name, is no phrase.

    Raises:
        SyntaxError: if this is not Python.
    """
    tokens, lines = read_tokens(source), source.encode().splitlines(keepends=True)
    spans, nodes = [], list(ast.parse(source).body)
    while nodes:
        node = nodes.pop()
        nodes += children(node)
        if (span := find_span(node, lines)) is None:
            continue
        covered = [i for i, token in enumerate(tokens) if span[0] <= token.start and token.end <= span[1]]
        if len(covered) > 1:
            has_decorators = bool(getattr(node, "decorator_list", ()))  # a decorator begins after its @
            spans.append((type(node).__name__, covered[0] - has_decorators, covered[-1] + 1))
    return sa.ConstituencyTree([token.string for token in tokens], spans)


def read_function(path: Path, name: str | None) -> str:
    """The source of a function of a file, the first one if no name is given."""
    source = path.read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    if not (chosen := [node for node in functions if name in (None, node.name)]):
        names = ", ".join(node.name for node in functions) or "none"
        raise SystemExit(f"{path}: expected a function {name or ''}; it has {names}")
    lines = source.splitlines(keepends=True)[chosen[0].lineno - 1 : chosen[0].end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "".join(line[indent:] for line in lines)


def main(arguments: Sequence[str] | None = None) -> sa.ConstituencyTree:
    """Draw the tree of a function and the distances of its tokens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__), help="a Python file; this one by default")
    parser.add_argument("--function", default="children", help="its name (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("code-tree.html"), help="the page (default: %(default)s)")
    options = parser.parse_args(arguments)
    tree = phrase_tree(read_function(options.file, options.function))
    sentence = sa.Sentence(tree.words, constituency=tree)
    batch = sa.collate([sentence], sa.Vocabulary([]))
    distance = -sa.priors.ConstituencyDistance()(batch).bias[0, 0].int()
    sections = [
        ("Tokens and the nodes of the syntax tree over them", sa.pictures.constituency_tree(tree.words, tree.spans)),
        ("Edges from token to token in the tree", sa.pictures.heatmap(tree.words, tree.words, distance)),
    ]
    options.out.write_text(sa.pictures.page(options.function, sections), encoding="utf-8")
    print(f"{options.out}: {len(tree)} tokens, {len(tree.spans)} phrases, up to {int(distance.max())} edges apart")
    return tree


if __name__ == "__main__":
    main()
