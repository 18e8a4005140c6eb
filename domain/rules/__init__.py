"""The domain's laws as pure functions: no database, no HTTP, no clock."""
