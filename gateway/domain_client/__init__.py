"""Calls the domain over HTTP: the only way by which the gateway changes anything."""
