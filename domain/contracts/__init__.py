"""Wire models: the only hall between the rooms. Pydantic and the standard library, nothing else."""
