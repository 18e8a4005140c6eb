"""Brings a Prefect server to what the workflows ask for, and says what it had to do. A second run changes nothing."""
