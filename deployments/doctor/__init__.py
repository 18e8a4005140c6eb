"""The checks of `cairn doctor`: this machine, the stack's folder, and what runs. They change nothing."""
