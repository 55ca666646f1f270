"""Pictures and pages that a notebook displays: strings with the method that notebooks look for."""

import html


class Picture(str):
    """An SVG document.

    Example:
        >>> Picture("<svg/>") == "<svg/>", Picture("<svg/>")._repr_html_()
        (True, '<div style="overflow-x:auto"><svg/></div>')
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The picture, which scrolls where the notebook is narrower."""
        return f'<div style="overflow-x:auto">{self}</div>'


class Document(str):
    """A whole HTML page.

    Example:
        >>> Document("<p>Hush</p>")._repr_html_()
        '<iframe sandbox="allow-scripts allow-downloads" srcdoc="&lt;p&gt;Hush&lt;/p&gt;" ...></iframe>'
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its scripts run, but cannot reach the notebook."""
        style = "width:100%;height:760px;border:0"
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(self)}" title="structattn" '
            f'style="{style}"></iframe>'
        )
