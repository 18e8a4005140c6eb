"""The gateway's routes, by audience."""
