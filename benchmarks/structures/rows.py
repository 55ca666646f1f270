"""The rows of the table."""

from benchmarks.structures import chain, constituency, nonprojective, projective, segments

ROWS = {row.letter: row for row in (chain.ROW, projective.ROW, nonprojective.ROW, constituency.ROW, segments.ROW)}
