"""The service that knows what is true: assets, versions, requests, runs, approvals. PostgreSQL behind FastAPI."""
