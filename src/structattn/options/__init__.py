"""Options of configurations: what they may be, checked before anything heavy is imported."""
