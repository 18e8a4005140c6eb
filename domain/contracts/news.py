"""How processes tell each other that something is to be forgotten."""

from typing import Final

# NOTIFY channel of the database: the payload names what changed. Triggers of schema app write its name too.
CACHE_CHANNEL: Final = "cairn_cache"
