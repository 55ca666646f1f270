"""Options of configurations: what they may be, checked before anything heavy is imported."""

from structattn.options.checking import check_options, parse_seeds, suggest

__all__ = ["check_options", "parse_seeds", "suggest"]
