"""The explorer: edit a tree and watch the heads, in a page, beside a server, or in a notebook."""

from structattn.explorer.page import explorer_element, frozen_page, live_page

__all__ = ["explorer_element", "frozen_page", "live_page"]
