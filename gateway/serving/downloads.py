"""The product itself, by range: what a catalogue item's `data` asset points to."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse

from flows.storage import Zones
from gateway.serving.access import readable_product
from gateway.serving.lookup import Product

MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
router = APIRouter(tags=["downloads"])


@router.api_route("/tiles/{asset_id}/data.tif", methods=["GET", "HEAD"])
async def data(request: Request, product: Annotated[Product, Depends(readable_product)]) -> FileResponse:
    """The cloud-optimised GeoTIFF of this version; readers such as GDAL and QGIS ask for parts of it."""
    zones: Zones = request.app.state.zones
    return FileResponse(
        zones.silver.readable_path(product.cog_name), media_type=MEDIA_TYPE, filename=f"{product.item_id}.tif"
    )
