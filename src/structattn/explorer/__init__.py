"""The explorer: edit a tree and watch the heads, in a page, with a server, or in a notebook."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.explorer.answers import Answers
    from structattn.explorer.notebook import explore
    from structattn.explorer.page import explorer_element, frozen_page, live_page
    from structattn.explorer.plots import attention_page, save_plots, save_state
    from structattn.explorer.state import State, read_state

__all__ = [
    "Answers",
    "State",
    "attention_page",
    "explore",
    "explorer_element",
    "frozen_page",
    "live_page",
    "read_state",
    "save_plots",
    "save_state",
]

load_lazily(__name__)
