"""Looks into a GeoPackage before GDAL does: it is a database, and a database can hold more than data."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from flows.handlers.errors import InvalidInput
from flows.handlers.vector.archive import listed_names

_CATALOGUE: Final = "select type, name, sql from sqlite_master where type in ('table', 'view')"
_LAYERS: Final = "select table_name from gpkg_contents where data_type = 'features'"
_SYSTEM: Final = ("gpkg_", "sqlite_")


def layer_of(path: Path, layer: str | None, name: str) -> str:
    """The layer that is meant, which is a plain table as are those that describe it."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("pragma trusted_schema = off")
            database.execute("pragma cell_size_check = on")
            objects = database.execute(_CATALOGUE).fetchall()
            _refuse_views(objects, name)
            layers = [str(row[0]) for row in database.execute(_LAYERS)]
    except (sqlite3.Error, UnicodeDecodeError):
        raise InvalidInput(f"{name!r} is not a GeoPackage that can be read: it is damaged or incomplete.") from None
    meant = _chosen(layers, layer, name)
    kinds = {str(found).lower(): (kind, str(sql or "")) for kind, found, sql in objects}
    kind, sql = kinds.get(meant.lower(), ("", ""))
    if kind != "table" or "virtual" in sql.split("(")[0].lower().split():
        raise InvalidInput(
            f"The layer {meant!r} of {name!r} is not a table but a query. Save it as a layer of its own."
        )
    return meant


def _refuse_views(objects: list[tuple[str, str, str]], name: str) -> None:
    for kind, found, _ in objects:
        if kind == "view" and str(found).lower().startswith(_SYSTEM):
            raise InvalidInput(f"{name!r} describes itself by queries in place of tables. Write it anew.")


def _chosen(layers: list[str], layer: str | None, name: str) -> str:
    if not layers:
        raise InvalidInput(f"{name!r} holds no layer of features.")
    if layer is None and len(layers) > 1:
        raise InvalidInput(f"{name!r} holds several layers: name one as `layer`: {listed_names(layers)}.")
    if layer is not None and layer not in layers:
        raise InvalidInput(f"{name!r} holds no layer {layer!r}. It holds {listed_names(layers)}.")
    return layer or layers[0]
