"""Use cases. Each runs inside the caller's transaction, decides by the rules, and never commits."""
