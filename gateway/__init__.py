"""The door that partners see. It authenticates, translates and forwards; it cannot write."""
