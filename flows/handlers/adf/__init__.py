"""Exports made by an Azure Data Factory pipeline: its REST API, what its answers mean, and the wait for its end."""
