"""Serves the product itself, by range, and the files beside it, which a catalogue item's assets point to."""

import re
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from flows.storage import Store, Zones
from flows.storage.reading import is_remote
from gateway.serving.access import identity_of, lookup_of, readable_product
from gateway.serving.freshness import tag_of
from gateway.serving.links import Links
from gateway.serving.lookup import Product
from gateway.serving.problems import NOT_FOUND, STORAGE_AWAY

MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
PARQUET = "application/vnd.apache.parquet"
PIECE_BYTES: Final = 4 * 1024 * 1024
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
# As `domain.rules.publication` writes them: what the file is for, the beginning of its digest, its ending.
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}-([0-9a-f]{16})(?:\.[A-Za-z0-9]{1,16})?")
router = APIRouter(tags=["downloads"])


@router.api_route("/tiles/{asset_id}/data.tif", methods=["GET", "HEAD"])
def data(request: Request, product: Annotated[Product, Depends(readable_product)]) -> Response:
    """The cloud-optimised GeoTIFF of this version; readers such as GDAL and QGIS ask for parts of it."""
    return _send_blob(request, product.cog_name, MEDIA_TYPE, f"{product.item_id}.tif")


@router.api_route("/tiles/{asset_id}/data.parquet", methods=["GET", "HEAD"])
def features(request: Request, product: Annotated[Product, Depends(readable_product)]) -> Response:
    """The GeoParquet of this version, with all its features."""
    return _send_blob(request, product.parquet_name, PARQUET, f"{product.item_id}.parquet")


@router.api_route("/tiles/{asset_id}/files/{file_name}", methods=["GET", "HEAD"])
async def file(request: Request, file_name: str, product: Annotated[Product, Depends(readable_product)]) -> Response:
    """A file of this version by what it holds: its thumbnail, a tile of a raster that is catalogued in tiles."""
    named = _FILE_NAME.fullmatch(file_name)
    found = await lookup_of(request).file(product, named[1]) if named else None
    if found is None:
        raise NOT_FOUND
    return await run_in_threadpool(_send_blob, request, found.name, found.media_type, file_name)


class LinkAnswer(BaseModel):
    """A link that works without a credential, and until when."""

    href: str
    expires_at: datetime


@router.get("/tiles/{asset_id}/link")
async def link(
    request: Request,
    response: Response,
    asset_id: str,
    product: Annotated[Product, Depends(readable_product)],
    file: Annotated[str, Query(description="What comes after the asset in the file's address")] = "data.tif",
) -> LinkAnswer:
    """A short-lived link to a file, for programs that can send no header. It gives no more than its asker may read."""
    if not await _is_there(request, product, file):
        raise NOT_FOUND
    links: Links = request.app.state.links
    identity = await identity_of(request)
    path = f"/tiles/{quote(asset_id)}/{file}"
    made = links.link(str(request.base_url), path, product.ordinal, identity.client_id if identity else None)
    response.headers["Cache-Control"] = "no-store"
    return LinkAnswer(href=made.href, expires_at=made.expires_at)


async def _is_there(request: Request, product: Product, file: str) -> bool:
    wholes = {"data.tif": product.cog_name, "data.parquet": product.parquet_name}
    if file in wholes:
        return wholes[file] is not None
    named = _FILE_NAME.fullmatch(file.removeprefix("files/")) if file.startswith("files/") else None
    return named is not None and await lookup_of(request).file(product, named[1]) is not None


def _send_blob(request: Request, name: str | None, media_type: str, filename: str) -> Response:
    """Send a blob of the silver zone; from an account it goes through this process.

    A URL of the account would outlive a downgrade by up to an hour.
    """
    if name is None:
        raise NOT_FOUND
    zones: Zones = request.app.state.zones
    readable = zones.silver.readable_path(name)
    tag = {"ETag": tag_of(request)}
    if not is_remote(readable):
        return FileResponse(readable, media_type=media_type, filename=filename, headers=tag)
    size = zones.silver.size_bytes(name)
    if size is None:
        raise STORAGE_AWAY
    headers = {"Accept-Ranges": "bytes", "Content-Disposition": f'attachment; filename="{filename}"'}
    is_of_this = request.headers.get("if-range", tag["ETag"]) == tag["ETag"]
    part = wanted_part(request.headers.get("range") if is_of_this else None, size)
    if part is not None and not part:
        return Response(
            status_code=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers={"Content-Range": f"bytes */{size}"}
        )
    status = HTTPStatus.OK if part is None else HTTPStatus.PARTIAL_CONTENT
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    part = part if part is not None else range(size)
    headers["Content-Length"] = str(len(part))
    content = _pieces(zones.silver, name, part) if request.method == "GET" else iter(())
    return StreamingResponse(content, status, headers, media_type)


def wanted_part(header: str | None, size: int) -> range | None:
    """Return the bytes that one range asks for, empty where there are none; None means the whole."""
    asked = _RANGE.fullmatch(header or "")
    if asked is None or asked.groups() == ("", ""):
        return None
    first, last = asked.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    return range(int(first), min(int(last) + 1, size) if last else size)


def _pieces(store: Store, name: str, part: range) -> Iterator[bytes]:
    for start in range(part.start, part.stop, PIECE_BYTES):
        yield store.read_range(name, start, min(PIECE_BYTES, part.stop - start))
