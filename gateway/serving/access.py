"""Finds the product that a request may read. The rule lives in the domain; this module asks it."""

import re
from typing import Annotated, Final

from fastapi import Path, Query, Request

from domain.rules.clearance import STAFF, Identity, may_have
from domain.shared.authentication import Authentication, IssuerUnavailable, Unauthenticated, shown_credential
from gateway.serving.freshness import mark
from gateway.serving.links import PARAMETER, Links
from gateway.serving.lookup import PARTS, Lookup, Product
from gateway.serving.problems import LINK_ENDED, NOT_FOUND, NOT_READY, UNKNOWN_CREDENTIAL

ASSET_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

AssetId = Annotated[str, Path(description="The asset's id")]
Version = Annotated[
    str, Query(pattern=r"^(latest|[0-9]{1,9})$", description="`latest`, or the ordinal number of a version")
]


def lookup_of(request: Request) -> Lookup:
    """The lookup that the app opened at its start."""
    lookup = request.app.state.lookup
    assert isinstance(lookup, Lookup)  # noqa: S101 - a fault of wiring, not of input
    return lookup


async def identity_of(request: Request) -> Identity | None:
    """Return who asks; None is the public. An unknown credential is refused at every address."""
    secret = shown_credential(request.headers)
    if secret is None:
        return await _identity_of_link(request)
    authentication: Authentication = request.app.state.authentication
    try:
        return await authentication.holder(secret, lookup_of(request))
    except Unauthenticated:
        raise UNKNOWN_CREDENTIAL from None
    except IssuerUnavailable:
        raise NOT_READY from None


async def _identity_of_link(request: Request) -> Identity | None:
    """Return for whom the used link was made; nobody where neither link nor credential is shown."""
    signature = request.query_params.get(PARAMETER)
    links: Links | None = getattr(request.app.state, "links", None)
    if signature is None or links is None:
        return None
    client_id = links.asker(signature, request.url.path, request.query_params.get("version"))
    identity = await lookup_of(request).identity_of(client_id) if client_id else None
    if client_id is None or (client_id and identity is None):
        raise LINK_ENDED
    return identity


def is_readable(product: Product, identity: Identity | None) -> bool:
    return may_have(
        identity,
        product.clearance,
        product.exposure,
        product.platform_id,
        approved=product.approved,
        is_latest=product.is_latest,
    )


async def readable_product(request: Request, asset_id: AssetId, version: Version = "latest") -> Product:
    """The product that the URL names, if this reader may have it; else the one answer that tells nothing."""
    identity = await identity_of(request)
    if not ASSET_ID.fullmatch(asset_id):
        raise NOT_FOUND
    lookup, ordinal = lookup_of(request), None if version == "latest" else int(version)
    product = None
    if ordinal is not None and identity is not None and identity.role in STAFF:
        product = await lookup.staged(asset_id, ordinal)  # staff preview what may take the place of what is served
    product = product or await lookup.product(asset_id, ordinal, lambda found: is_readable(found, identity))
    if product is None or not is_readable(product, identity):
        raise NOT_FOUND
    whole = product.cog_name or product.table_name
    parts = [] if whole else await lookup.descriptions(product, PARTS)
    mark(request, product, parts=parts, is_public=is_readable(product, None))
    return product
