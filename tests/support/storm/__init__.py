"""What the storms are made of: a whole stack under a mixed load, what is done to it, and what must hold afterwards."""
