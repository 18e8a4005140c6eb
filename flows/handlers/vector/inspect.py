"""Says what a vector file holds, or refuses it in words its sender can act on. Features are judged when converted."""

from typing import Final

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.vector import crs
from flows.handlers.vector.convert import columns_of
from flows.handlers.vector.declarations import Column, VectorValidateParams, VectorValidateResult
from flows.handlers.vector.formats import misnamed
from flows.handlers.vector.reading import facts, opened, quarantined

_MEGABYTE: Final = 1024**2


def validate(params: VectorValidateParams, context: Context) -> VectorValidateResult:
    """Report what the layer is, or refuse it."""
    source = quarantined(params.source, params.layer, context)
    found = facts(source)
    if not found.features:
        raise InvalidInput(f"{params.source!r} has no features. Check what was exported, and send it again.")
    if len(found.bounds) != 4:
        raise InvalidInput(f"{params.source!r} has no feature with a geometry that can be used.")
    context.raise_if_stopping()
    with opened(source, 1) as layer:
        columns = columns_of(layer.schema, params.source)
        code = crs.code_of(layer.crs, params.source_crs, params.source)
        geometry_type = layer.geometry_type
    west, south, east, north = found.bounds
    return VectorValidateResult(
        source=params.source,
        layer=source.layer,
        format=source.format,
        warnings=[each for each in (misnamed(source.format, params.source), _renamed(columns)) if each],
        crs=code,
        geometry_type=geometry_type,
        feature_count=found.features,
        fields={column.title: column.type for column in columns},
        bounds_wgs84=crs.bounds_wgs84((west, south, east, north), code, params.source),
        size_mb=source.size_bytes / _MEGABYTE,
        sha256=source.sha256,
    )


def _renamed(columns: list[Column]) -> str | None:
    """What to tell of names that a table cannot have."""
    changed = [f"{column.title[:60]!r} to {column.name}" for column in columns if column.name != column.title]
    if not changed:
        return None
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return f"Columns are renamed for the table: {', '.join(changed[:5])}{more}."
