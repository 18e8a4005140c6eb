"""Bounds how requests arrive and answers leave, before any route is known: protocol, bodies, rates, places."""
