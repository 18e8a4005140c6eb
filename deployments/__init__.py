"""How Cairn runs: the `cairn` command, the embedded stack, work pools and deployments."""
