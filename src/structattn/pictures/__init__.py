"""Drawing: words and numbers in, a self-contained SVG or HTML string out.

Nothing here displays, fetches or prints, and nothing imports torch. A row is a query, a column is a key. ``save``
writes any picture as SVG, PNG or PDF.
"""

from structattn.pictures.arc_diagram import Arc, arc_diagram
from structattn.pictures.axes import Series
from structattn.pictures.bars import bar_chart
from structattn.pictures.cells import Panel
from structattn.pictures.colours import Limits
from structattn.pictures.heatmap import Names, heatmap, heatmap_grid
from structattn.pictures.html_page import page, table
from structattn.pictures.line_charts import line_chart, line_panels
from structattn.pictures.picture_files import save
from structattn.pictures.tree_pictures import constituency_tree, dependency_tree

__all__ = [
    "Arc",
    "Limits",
    "Names",
    "Panel",
    "Series",
    "arc_diagram",
    "bar_chart",
    "constituency_tree",
    "dependency_tree",
    "heatmap",
    "heatmap_grid",
    "line_chart",
    "line_panels",
    "page",
    "save",
    "table",
]
