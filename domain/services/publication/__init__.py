"""Deciding about revisions, and serving what was approved."""
