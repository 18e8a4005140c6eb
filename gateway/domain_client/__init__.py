"""Asking the domain over HTTP: the one way by which the gateway changes anything."""
