"""The site, built by `make docs` from the whole repository, so that links between its pages work as they stand.

Offline, with warnings as errors: formulas become MathML, which browsers draw without a script; nothing is fetched.
"""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import structattn

HERE = Path(__file__).parent

project = "structattn"
version = release = structattn.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "papers/README.md", "src/structattn/parsing/english/README.md"]
exclude_patterns = [".*", "docs/_build", "docs/site", "runs", "demo", "src/structattn/kernels"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
templates_path = [str(HERE / "templates")]
html_extra_path = [str(HERE / "extra")]
html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_js_files = ["theme.js"]
html_favicon = "static/favicon.svg"
html_title = f"structattn {release}"
html_show_sourcelink = html_copy_source = html_show_copyright = False
html_math_renderer = "mathml"

# Names are documented in the package that exports them, whichever file they stand in.
autosummary_imported_members = True
autosummary_ignore_module_all = False
# What a package exports a second time is indexed in the package it comes from.
autosummary_context = {"documented_below": {"structattn.backbones": ("BackboneEmbedding", "PretrainedBackbone")}}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "py:obj"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_merge_streams = True
# A page has no kernel: what a widget shows without one stands there.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_ipywidgets_js = {}  # nor scripts for widgets, which would come from elsewhere
nb_execution_timeout = 600  # seconds for a cell; a busy machine is several times slower
nb_execution_raise_on_error = True


def document_tables(_: Sphinx, what: str, name: str, __: Any, ___: Any, lines: list[str]) -> None:
    """Give a constant the comment above its definition: where it is only imported, Sphinx sees its type's."""
    package, _, constant = name.rpartition(".")
    if what == "data":
        files = [f"{package}.{file.stem}" for file in Path(sys.modules[package].__path__[0]).glob("[!_]*.py")]
        comments = [ModuleAnalyzer.for_module(file).find_attr_docs().get(("", constant)) for file in files]
        lines[:] = next((found for found in comments if found), [])
        if not lines:
            raise LookupError(f"{name}: expected a comment that begins with #: above its definition")


def leave_out_object(_: Sphinx, page: nodes.document) -> None:
    """Every class inherits from object: the line that says so is noise."""
    for paragraph in [one for one in page.findall(nodes.paragraph) if one.astext() == "Bases: object"]:
        paragraph.parent.remove(paragraph)


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("autodoc-process-docstring", document_tables)
    app.connect("doctree-read", leave_out_object)
