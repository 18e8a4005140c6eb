"""The outside systems that the domain talks to, one module each."""
