"""Drawing: words and numbers in, a self-contained SVG or HTML string out.

Nothing here displays, fetches or prints, and nothing knows torch. A row is a query, a column is a key.
``save_panels`` and ``save_lines`` write PNG and PDF through matplotlib (extra ``plot``).
"""

from structattn.pictures.arcs import Arc, arc_diagram
from structattn.pictures.axes import Series
from structattn.pictures.bipartite import attention_arcs
from structattn.pictures.charts import bar_chart, line_chart
from structattn.pictures.constituency import constituency_tree
from structattn.pictures.dependency import dependency_tree
from structattn.pictures.export import save_lines, save_panels
from structattn.pictures.heatmap import heatmap, heatmap_grid
from structattn.pictures.lattice import lattice
from structattn.pictures.matrices import Panel
from structattn.pictures.page import Section, choices, figure, page, paragraph, side_by_side, table
from structattn.pictures.vectors import gate_image, vector_comparison, vector_image

__all__ = [
    "Arc",
    "Panel",
    "Section",
    "Series",
    "arc_diagram",
    "attention_arcs",
    "bar_chart",
    "choices",
    "constituency_tree",
    "dependency_tree",
    "figure",
    "gate_image",
    "heatmap",
    "heatmap_grid",
    "lattice",
    "line_chart",
    "page",
    "paragraph",
    "save_lines",
    "save_panels",
    "side_by_side",
    "table",
    "vector_comparison",
    "vector_image",
]
