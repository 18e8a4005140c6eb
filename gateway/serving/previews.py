"""Shows staff the items of revisions that wait for review, as they would be published.

The catalogue holds what is approved. What is staged lies beside the product and is read from there.
"""

import json
import re
from typing import Any, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from domain.rules.clearance import STAFF
from domain.rules.publication import public_item
from flows.storage import Zones
from gateway.serving.access import identity_of, lookup_of
from gateway.serving.lookup import PARTS

# As `domain.rules.publication` writes them: the revision's own id, then the part's.
_ITEM_ID: Final = re.compile(r"(?P<whole>(?P<asset>.+?)-(?P<ordinal>[0-9]{1,9})-r(?P<revision>[0-9]{1,9}))(?:-.+)?")


async def staged_item(request: Request, collection_id: str, item_id: str) -> dict[str, Any] | None:
    """The item as it would be published; None to everybody but staff, and where nothing of the kind waits."""
    identity, named = await identity_of(request), _ITEM_ID.fullmatch(item_id)
    if identity is None or identity.role not in STAFF or named is None or named["asset"] != collection_id:
        return None
    lookup, ordinal = lookup_of(request), int(named["ordinal"])
    product = await lookup.staged(collection_id, ordinal)
    if product is None or product.item_id != named["whole"]:
        return None
    names = [*await lookup.descriptions(product, "stac_item"), *await lookup.descriptions(product, PARTS)]
    zones: Zones = request.app.state.zones
    found = await run_in_threadpool(_item, zones, names, item_id)
    origin = f"{request.url.scheme}://{request.url.netloc}"
    return None if found is None else public_item(found, origin, product.item_id, ordinal)


def _item(zones: Zones, names: list[str], item_id: str) -> dict[str, Any] | None:
    """Return the item of this id from a file that is one item, or has one on each line."""
    for name in names:
        content = zones.silver.read_bytes(name)
        for line in content.splitlines() if name.endswith(".ndjson") else [content]:
            item: dict[str, Any] = json.loads(line)
            if item["id"] == item_id:
                return item
    return None
