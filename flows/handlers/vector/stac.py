"""Writes the STAC item of a vector layer: its GeoParquet and, by the table extension, its columns. Knows no GDAL."""

from typing import Any

from flows.handlers.context import Context
from flows.handlers.raster.declarations import RegisterItemResult
from flows.handlers.stac.items import CataloguedProduct, DerivedFrom, file_asset, plain_text
from flows.handlers.stac.models import StacColumn
from flows.handlers.stac.staging import staged_item
from flows.handlers.vector.declarations import VectorConvertResult, VectorItemParams

GEOMETRY = "geometry"


def register_item(params: VectorItemParams, context: Context) -> RegisterItemResult:
    """Describe one layer, staged in the silver zone."""
    return staged_item(layer_product(params.product), DerivedFrom(params.source, params.product.source_sha256), context)


def layer_product(product: VectorConvertResult) -> CataloguedProduct:
    """The layer as the catalogue describes it."""
    return CataloguedProduct(
        bounds=product.bounds_wgs84,
        assets={"data": file_asset(product.artifacts[0], ["data"])},
        properties=_table(product) | {"proj__code": product.crs, "proj__bbox": product.bounds_native},
    )


def _table(product: VectorConvertResult) -> dict[str, Any]:
    """The columns as the table extension words them; the sender's own names are descriptions."""
    shape = StacColumn(name=GEOMETRY, type=product.geometry_type, description=f"Geometry in {product.crs}")
    columns = [
        StacColumn(name=each.name, type=each.type, description=plain_text(each.title)) for each in product.columns
    ]
    return {
        "table__columns": [*columns, shape],
        "table__primary_geometry": GEOMETRY,
        "table__row_count": product.feature_count,
    }
