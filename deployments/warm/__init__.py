"""Warm start: flow runs forked from a process that has already imported what they need."""
