"""The product itself, by range: what a catalogue item's `data` asset points to."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from flows.storage import Store, Zones
from flows.storage.reading import is_remote
from gateway.serving.access import readable_product
from gateway.serving.lookup import Product

MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
PIECE_BYTES: Final = 4 * 1024 * 1024
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
router = APIRouter(tags=["downloads"])


@router.api_route("/tiles/{asset_id}/data.tif", methods=["GET", "HEAD"])
def data(request: Request, product: Annotated[Product, Depends(readable_product)]) -> Response:
    """The cloud-optimised GeoTIFF of this version; readers such as GDAL and QGIS ask for parts of it."""
    zones: Zones = request.app.state.zones
    readable, filename = zones.silver.readable_path(product.cog_name), f"{product.item_id}.tif"
    if not is_remote(readable):
        return FileResponse(readable, media_type=MEDIA_TYPE, filename=filename)
    return _passed_on(zones.silver, product.cog_name, filename, request)


def _passed_on(store: Store, name: str, filename: str, request: Request) -> Response:
    """Through this process: a URL of the account would outlive a downgrade by up to an hour."""
    size = store.size_bytes(name) or 0
    headers = {"Accept-Ranges": "bytes", "Content-Disposition": f'attachment; filename="{filename}"'}
    part = wanted_part(request.headers.get("range"), size)
    if part is not None and not part:
        return Response(
            status_code=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers={"Content-Range": f"bytes */{size}"}
        )
    status = HTTPStatus.OK if part is None else HTTPStatus.PARTIAL_CONTENT
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    part = part if part is not None else range(size)
    headers["Content-Length"] = str(len(part))
    content = _pieces(store, name, part) if request.method == "GET" else iter(())
    return StreamingResponse(content, status, headers, MEDIA_TYPE)


def wanted_part(header: str | None, size: int) -> range | None:
    """The bytes that one range asks for, empty where there are none; None where all are to be sent."""
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
