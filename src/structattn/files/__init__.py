"""Files on disk: text, folders, locks; whole or not at all, and small enough to be read."""
