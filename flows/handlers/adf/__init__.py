"""Exports by an Azure Data Factory pipeline: its REST API, the meaning of its answers, and the wait for its end."""
