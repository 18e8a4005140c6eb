"""What partners may have done: written by the domain where it starts, read by the gateway through its view."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Offer:
    """One process, the same for all platforms: their own references are no part of it.

    `inputs` is a list, for their order: each with name, required and schema.
    """

    process_id: str
    data_type: str
    operation: str
    title: str
    description: str
    version: str
    inputs: list[dict[str, Any]]
