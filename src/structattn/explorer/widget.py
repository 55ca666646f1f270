"""The explorer in the output of a notebook's cell: the page and the models communicate through the kernel.

The extra ``notebook`` installs anywidget, which this file needs; without it, ``explore`` shows a frozen page.
"""

from typing import Any

import anywidget
import traitlets

from structattn.explorer.answers import Answers
from structattn.explorer.explorer_page import SCRIPT, frozen_page


class ExplorerWidget(anywidget.AnyWidget):
    """The explorer of some models; ``frozen`` is what is shown where there is no kernel, as in an exported notebook."""

    _esm = SCRIPT
    boot = traitlets.Dict().tag(sync=True)

    def __init__(self, answers: Answers, boot: dict[str, Any], *, frozen: dict[str, Any]) -> None:
        super().__init__(boot=boot)
        self._answers = answers
        self._frozen = frozen
        self.on_msg(self._receive)

    def _receive(self, widget: object, content: object, buffers: object) -> None:
        self.send(self._answers.ask(content))

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """The widget, and the frozen page for front ends that cannot show it."""
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, "text/html": frozen_page(self._frozen)._repr_html_()}, metadata

    def __repr__(self) -> str:
        return f"<explorer of {', '.join(self._answers.models)}>"
