"""The embedded stack: every part of Cairn on one machine, started in order, watched, stopped without a trace."""
