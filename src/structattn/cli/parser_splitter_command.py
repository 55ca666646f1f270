"""``structattn parser splitter``: a parser learns how a treebank splits raw text."""

from collections.abc import Iterator

from structattn.cli.command_inputs import check_at_least, check_sources
from structattn.cli.terminal_tables import format_metrics
from structattn.data.model_config import Storage, find_model_folder
from structattn.syntax import read_conllu


def command(
    treebank: str, parser: str, *, dev: str | None = None, epochs: int = 12, seed: int = 1, storage: Storage = "int8"
) -> Iterator[str]:
    """Learn from the texts of a treebank where sentences, tokens and words end; the parser then splits raw text so.

    Minutes on one processor. Without it, a parser of your own splits by rules for English.

    Args:
        treebank: a CoNLL-U file with the text of each sentence, such as one of Universal Dependencies.
        parser: the folder of the parser or of its run; the splitter is written into it, as splitter.
        dev: a CoNLL-U file to measure the splitter on, after each epoch.
        epochs: passes over the texts.
        seed: random seed of parameters, order and dropout.
        storage: number format of the saved splitter.
    """
    check_at_least(1, epochs=epochs)
    check_sources(treebank, dev)
    from structattn.parsing.splitter_training import label_texts, score_splitting, train_splitter
    from structattn.parsing.tree_parser import SPLITTER, read_parser

    read_parser(parser)
    texts = label_texts(list(read_conllu(treebank)))
    held_out = [] if dev is None else label_texts(list(read_conllu(dev)))
    for epoch, splitter in enumerate(train_splitter(texts, epochs=epochs, seed=seed), start=1):
        if held_out:
            yield f"epoch {epoch}  {format_metrics(score_splitting(splitter, held_out))}"
    folder = find_model_folder(parser) / SPLITTER
    splitter.save_pretrained(folder, storage=storage, card=False)
    yield f"{folder}  {sum(len(text) for text, _ in texts):,} characters"
