"""What `cairn bench` runs. Each module has `run(...)`, which returns a report in one shape."""
