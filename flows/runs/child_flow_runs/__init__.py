"""Child runs: parts of a run that flow runs on another pool do, ordered and answered by files in run storage."""
