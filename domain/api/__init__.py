"""Routes: they authenticate, open the unit of work, call one use case, and answer."""
