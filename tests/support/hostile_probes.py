"""The handlers that open files, with a measurement around them, and one that does what a hostile file would like."""

import os
import resource
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import rasterio
from pydantic import BaseModel

from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.raster.declarations import (
    COG_CREATED,
    VALIDATED,
    CogResult,
    CreateCogParams,
    ValidateParams,
    ValidateResult,
    create_cog,
    validate,
)
from flows.handlers.registry import handler
from flows.handlers.vector import declarations as vectors
from flows.handlers.vector.declarations import (
    VectorConvertParams,
    VectorConvertResult,
    VectorValidateParams,
    VectorValidateResult,
)


class Wish(BaseModel):
    """What a taken-over process might try, and where."""

    what: str
    where: str


class Granted(BaseModel):
    got: str = ""


def validate_measured(params: ValidateParams, context: Context) -> ValidateResult:
    """As the handler, and tell what it cost."""
    try:
        return validate(params, context)
    finally:
        _tell_cost(context)


def create_cog_measured(params: CreateCogParams, context: Context) -> CogResult:
    """As the handler, and tell what it cost."""
    try:
        return create_cog(params, context)
    finally:
        _tell_cost(context)


def vector_validate_measured(params: VectorValidateParams, context: Context) -> VectorValidateResult:
    """As the handler, and tell what it cost."""
    try:
        return vectors.validate(params, context)
    finally:
        _tell_cost(context)


def vector_convert_measured(params: VectorConvertParams, context: Context) -> VectorConvertResult:
    """As the handler, and tell what it cost."""
    try:
        return vectors.convert(params, context)
    finally:
        _tell_cost(context)


def _tell_cost(context: Context) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    context.metric("peak_mb", used.ru_maxrss / 1024)
    context.metric("cpu_seconds", used.ru_utime + used.ru_stime)


def grant(params: Wish, context: Context) -> Granted:
    """Do it, as if no care had been taken."""
    return Granted(got=str(WISHES[params.what](params.where))[:200])


def _open_trustingly(where: str) -> Any:
    """As software does that trusts its files: any driver, all sidecars, every picture."""
    with rasterio.open(where) as raster:
        return raster.read(1, out_shape=(16, 16)).max()


def _open_copy(content: str) -> Any:
    """The same of a file that lies in the try's own folder."""
    Path("copy.tif").write_bytes(bytes.fromhex(content))
    return _open_trustingly("copy.tif")


def _call(where: str) -> Any:
    parts = urlsplit(where)
    with socket.create_connection((parts.hostname, parts.port), timeout=1):
        return "connected"


WISHES: dict[str, Any] = {
    "read": lambda where: Path(where).read_text(errors="replace"),
    "write": lambda where: Path(where).write_text("was here"),
    "call": _call,
    "signal": lambda where: os.kill(int(where), 0),
    "open": _open_trustingly,
    "open a copy": _open_copy,
}


def declare() -> None:
    """Make the probes known to this process."""
    handler("hostile.validate", pool="gdal", example=VALIDATED)(validate_measured)
    handler("hostile.create_cog", pool="gdal", example=COG_CREATED)(create_cog_measured)
    handler("hostile.vector_validate", pool="gdal", example=vectors.validate.example)(vector_validate_measured)
    handler("hostile.vector_convert", pool="gdal", example=vectors.CONVERTED)(vector_convert_measured)
    handler("hostile.wish", pool="gdal", example=Granted())(grant)
    registry.registry.cache_clear()


def forget() -> None:
    """Undo it."""
    for name in [name for name in registry._declared if name.startswith("hostile.")]:
        registry._declared.pop(name)
    registry.registry.cache_clear()
