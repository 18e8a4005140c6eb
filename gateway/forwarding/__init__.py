"""Passing requests on to the services behind the gateway."""
