"""Drawing: words and numbers in, a self-contained SVG or HTML string out.

Nothing here displays, fetches or prints, and nothing imports torch. A row is a query, a column is a key. ``save``
writes any picture as SVG, PNG or PDF.
"""

from structattn.pictures.arcs import arc_diagram
from structattn.pictures.axes import Series
from structattn.pictures.bars import bar_chart
from structattn.pictures.cells import Panel
from structattn.pictures.colours import Limits
from structattn.pictures.constituency import constituency_tree
from structattn.pictures.convert import encode, save
from structattn.pictures.dependency import dependency_tree
from structattn.pictures.gates import gate_image
from structattn.pictures.heatmap import Names, heatmap, heatmap_grid
from structattn.pictures.lines import line_chart
from structattn.pictures.page import Section, page, table
from structattn.pictures.panels import line_panels
from structattn.pictures.sides import Arc
from structattn.pictures.stacking import stack

__all__ = [
    "Arc",
    "Limits",
    "Names",
    "Panel",
    "Section",
    "Series",
    "arc_diagram",
    "bar_chart",
    "constituency_tree",
    "dependency_tree",
    "encode",
    "gate_image",
    "heatmap",
    "heatmap_grid",
    "line_chart",
    "line_panels",
    "page",
    "save",
    "stack",
    "table",
]
