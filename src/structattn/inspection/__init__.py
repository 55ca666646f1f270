"""Analysis of models: attention maps, their summaries and figures, leave-one-out attribution.

``attention_maps`` runs a model once and returns values; ``pictures`` draws them; ``explorer`` shows them in a page.
``recording`` gives the weights themselves, batch by batch, of any model while it runs.
``comparison_table`` and ``flips_page`` show the result of ``structattn.compare``.
"""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn.inspection.attention_maps import attention_maps
    from structattn.inspection.attention_statistics import attention_distance, attention_entropy, head_recall, summarise
    from structattn.inspection.binned_accuracy import binned_accuracy, num_attractors
    from structattn.inspection.comparison_tables import comparison_table, flips_page
    from structattn.inspection.hydra_figures import relation_figures
    from structattn.inspection.inspect_example import Look, look
    from structattn.inspection.occlusion import attribution_figure, leave_one_out
    from structattn.inspection.phrase_attention import phrase_attention, phrase_attention_figure, phrase_attention_table
    from structattn.inspection.report_page import report_page
    from structattn.inspection.sentence_figures import (
        attention_figure,
        features_figure,
        pooling_figure,
    )
    from structattn.inspection.structure_edits import arc_influence, flipping_edits, structures_read
    from structattn.layers.attention_map import AttentionMap
    from structattn.layers.recording import recording

__all__ = [
    "AttentionMap",
    "Look",
    "arc_influence",
    "attention_distance",
    "attention_entropy",
    "attention_figure",
    "attention_maps",
    "attribution_figure",
    "binned_accuracy",
    "comparison_table",
    "features_figure",
    "flipping_edits",
    "flips_page",
    "head_recall",
    "leave_one_out",
    "look",
    "num_attractors",
    "phrase_attention",
    "phrase_attention_figure",
    "phrase_attention_table",
    "pooling_figure",
    "recording",
    "relation_figures",
    "report_page",
    "structures_read",
    "summarise",
]

load_lazily(__name__)
