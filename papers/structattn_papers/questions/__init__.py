"""Extractive question answering on SQuAD: a backbone, with or without HYDRA heads, marks answers in texts."""

from typing import TYPE_CHECKING

from structattn.lazy import load_lazily

if TYPE_CHECKING:
    from structattn_papers.questions.question_answering import (
        Question,
        Windows,
        answer_questions,
        answer_scores,
        make_windows,
        squad_scores,
    )
    from structattn_papers.questions.question_run import QuestionResult, run_questions
    from structattn_papers.questions.questions_config import QuestionRun
    from structattn_papers.questions.squad_file import read_squad

__all__ = [
    "Question",
    "QuestionResult",
    "QuestionRun",
    "Windows",
    "answer_questions",
    "answer_scores",
    "make_windows",
    "read_squad",
    "run_questions",
    "squad_scores",
]

load_lazily(__name__)
