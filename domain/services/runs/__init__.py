"""Runs from their opening to their end, and what operators order meanwhile."""
