"""Runs workflows: YAML in, compiled plans, Prefect flows, handlers that do the work."""
