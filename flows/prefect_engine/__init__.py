"""Where Cairn leans on Prefect's insides: its engines of flow runs and task runs, and its client."""
