"""What a run remembers in run storage beyond a try: how its nodes ended, large values, checkpoints."""
