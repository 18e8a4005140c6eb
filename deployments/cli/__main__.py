"""`python -m deployments.cli`: the `cairn` command without its script."""

from deployments.cli import main

main()
