"""What `cairn bench` runs: every benchmark is a command, with its baseline in the same run."""
