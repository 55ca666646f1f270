"""Placeholder: exported names follow."""
