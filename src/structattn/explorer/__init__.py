"""The explorer: edit a tree and watch the heads, in a page, with a server, or in a notebook."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.explorer.answers import Answers
    from structattn.explorer.explorer_page import frozen_page
    from structattn.explorer.notebook import explore
    from structattn.explorer.plots import attention_page, save_plots, save_state
    from structattn.explorer.protocol import read_state

__all__ = ["Answers", "attention_page", "explore", "frozen_page", "read_state", "save_plots", "save_state"]

load_lazily(__name__)
