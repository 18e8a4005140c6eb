"""What the gateway reads by itself, as a role that cannot write."""
