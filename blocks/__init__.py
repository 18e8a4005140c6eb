"""Prefect blocks: how operators configure storage, service identity and callback secrets."""
