"""Analysis of models: attention maps, their summaries, and the figures of the papers.

``attention_maps`` runs a model once and returns values; ``pictures`` draws them; ``attention_page`` and ``save_plots``
draw all figures of a trained model on some sentences.
"""

from structattn.inspection.attention_map import AttentionMap
from structattn.inspection.figures import (
    attention_figure,
    attention_panels,
    distance_figure,
    gate_figure,
    paper_priors,
    pooling_features_figure,
    pooling_figure,
    prior_figure,
    tree_figure,
    word_vector_figure,
)
from structattn.inspection.hydra_figures import pretraining_figure, relation_figures
from structattn.inspection.maps import attention_maps
from structattn.inspection.occlusion import WordAttribution, attribution_figure, leave_one_out
from structattn.inspection.phrase_attention import (
    PhraseAttention,
    phrase_attention,
    phrase_attention_figure,
    phrase_attention_table,
)
from structattn.inspection.plots import attention_page, save_plots
from structattn.inspection.scores import (
    BinnedAccuracy,
    accuracy_figure,
    num_attractors,
    num_words,
    parted_accuracy,
)
from structattn.inspection.summary import attention_distance, attention_entropy, head_recall, summarise
from structattn.inspection.tree_figures import (
    accumulation_figure,
    embedding_index_figure,
    phrase_query_figure,
    phrase_share,
    subtree_mask_figure,
)

__all__ = [
    "AttentionMap",
    "BinnedAccuracy",
    "PhraseAttention",
    "WordAttribution",
    "accumulation_figure",
    "accuracy_figure",
    "attention_distance",
    "attention_entropy",
    "attention_figure",
    "attention_maps",
    "attention_page",
    "attention_panels",
    "attribution_figure",
    "distance_figure",
    "embedding_index_figure",
    "gate_figure",
    "head_recall",
    "leave_one_out",
    "num_attractors",
    "num_words",
    "paper_priors",
    "parted_accuracy",
    "phrase_attention",
    "phrase_attention_figure",
    "phrase_attention_table",
    "phrase_query_figure",
    "phrase_share",
    "pooling_features_figure",
    "pooling_figure",
    "pretraining_figure",
    "prior_figure",
    "relation_figures",
    "save_plots",
    "subtree_mask_figure",
    "summarise",
    "tree_figure",
    "word_vector_figure",
]
