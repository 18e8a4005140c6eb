"""Decisions as pure functions: no I/O, no clock, no database."""
