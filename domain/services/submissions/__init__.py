"""Taking submissions in."""
