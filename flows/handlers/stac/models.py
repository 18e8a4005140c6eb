"""STAC 1.1 items and collections as we write them: the core, and the fields of the extensions that we use.

A field `proj__code` is `proj:code` in JSON. What these models let through, the extensions' own schemas let through too;
those are in no package, so this is where they are kept to. Knows nothing of products, files or the platform.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

Json = dict[str, Any]

STAC_VERSION: Final = "1.1.0"
_SCHEMAS: Final = "https://stac-extensions.github.io"
EXTENSIONS: Final = {
    "proj": f"{_SCHEMAS}/projection/v2.0.0/schema.json",
    "raster": f"{_SCHEMAS}/raster/v2.0.0/schema.json",
    "file": f"{_SCHEMAS}/file/v2.1.0/schema.json",
    "table": f"{_SCHEMAS}/table/v1.2.0/schema.json",
    "processing": f"{_SCHEMAS}/processing/v1.2.0/schema.json",
}
PLATFORM_PREFIX: Final = "platform:"

DataType = Literal[
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "cint16", "cint32", "cfloat32", "cfloat64", "other",
]  # fmt: skip
Multihash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]+$", min_length=4)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Latitude = Annotated[float, Field(ge=-90, le=90)]
Bbox = tuple[Longitude, Latitude, Longitude, Latitude]
Position = tuple[Longitude, Latitude]
Ring = Annotated[list[Position], Field(min_length=4)]
Rings = Annotated[list[Ring], Field(min_length=1)]


class _Strict(BaseModel):
    """The base of models that name every field and hold only numbers that JSON has."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, alias_generator=lambda name: name.replace("__", ":"),
        validate_by_name=True, validate_by_alias=True,
    )  # fmt: skip


class Polygon(_Strict):
    type: Literal["Polygon"] = "Polygon"
    coordinates: Rings


class MultiPolygon(_Strict):
    type: Literal["MultiPolygon"] = "MultiPolygon"
    coordinates: Annotated[list[Rings], Field(min_length=1)]


Geometry = Annotated[Polygon | MultiPolygon, Field(discriminator="type")]


class StacLink(_Strict):
    rel: str = Field(min_length=1)
    href: str = Field(min_length=1)
    type: str | None = None
    title: str | None = None
    file__checksum: Multihash | None = None


class StacStatistics(_Strict):
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    stddev: float | None = Field(default=None, ge=0)
    valid_percent: float | None = Field(default=None, ge=0, le=100)


class StacBand(_Strict):
    name: str = Field(min_length=1)
    description: str | None = Field(default=None, min_length=1)
    data_type: DataType | None = None
    nodata: float | Literal["nan", "inf", "-inf"] | None = None
    unit: str | None = Field(default=None, min_length=1)
    statistics: StacStatistics | None = None
    raster__scale: float | None = None
    raster__offset: float | None = None


class StacColumn(_Strict):
    """One column of a table, as the table extension has it."""

    name: str = Field(min_length=1)
    description: str | None = Field(default=None, min_length=1)
    type: str | None = Field(default=None, min_length=1)


class StacAsset(_Strict):
    href: str = Field(min_length=1)
    type: str | None = None
    title: str | None = None
    description: str | None = None
    roles: Annotated[list[str], Field(min_length=1)]
    bands: Annotated[list[StacBand], Field(min_length=1)] | None = None
    raster__sampling: Literal["area", "point"] | None = None
    file__size: int | None = Field(default=None, ge=0)
    file__checksum: Multihash | None = None

    @model_validator(mode="after")
    def _bands_have_names_of_their_own(self) -> Self:
        names = [band.name for band in self.bands or []]
        if len(set(names)) < len(names):
            raise ValueError("two bands of an asset have one name")
        return self


class Properties(BaseModel):
    """Common metadata and extension fields of an item. `platform:…` fields are a partner's own names."""

    model_config = _Strict.model_config | ConfigDict(extra="allow")

    datetime: AwareDatetime
    created: AwareDatetime | None = None
    title: str | None = Field(default=None, min_length=1)
    proj__code: str | None = Field(default=None, pattern=r"^[A-Z]+:[0-9]+$")
    proj__bbox: tuple[float, float, float, float] | None = None
    proj__shape: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    proj__transform: Annotated[list[float], Field(min_length=6, max_length=9)] | None = None
    table__columns: Annotated[list[StacColumn], Field(min_length=1)] | None = None
    table__primary_geometry: str | None = None
    table__row_count: int | None = Field(default=None, ge=0)
    processing__lineage: str | None = Field(default=None, min_length=1)
    processing__software: dict[str, str] | None = None

    @model_validator(mode="after")
    def _others_are_the_platforms(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if not name.startswith(PLATFORM_PREFIX) or not isinstance(value, str):
                raise ValueError(f"{name!r} is no field of an item")
        return self


class StacItem(_Strict):
    """One product in the catalogue."""

    type: Literal["Feature"] = "Feature"
    stac_version: Literal["1.1.0"] = STAC_VERSION
    stac_extensions: list[str] = Field(default_factory=list)
    id: str = Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=300)
    collection: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    geometry: Geometry
    bbox: Bbox
    properties: Properties
    assets: Annotated[dict[str, StacAsset], Field(min_length=1)]
    links: list[StacLink] = Field(default_factory=list)

    def document(self) -> Json:
        """Return the item as it is written, with the extensions that it uses."""
        return _document(self)


class SpatialExtent(_Strict):
    bbox: Annotated[list[Bbox], Field(min_length=1)]


class TemporalExtent(_Strict):
    interval: Annotated[list[tuple[AwareDatetime | None, AwareDatetime | None]], Field(min_length=1)]


class Extent(_Strict):
    spatial: SpatialExtent
    temporal: TemporalExtent


class Collection(_Strict):
    """What holds the versions of one dataset."""

    type: Literal["Collection"] = "Collection"
    stac_version: Literal["1.1.0"] = STAC_VERSION
    stac_extensions: list[str] = Field(default_factory=list)
    id: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    title: str = Field(min_length=1)
    description: str = Field(min_length=1)
    license: str = "other"
    extent: Extent
    summaries: dict[str, list[str]] | None = None
    links: list[StacLink] = Field(default_factory=list)

    def document(self) -> Json:
        """As it is written."""
        return _document(self, keep=("interval",))


def _document(model: StacItem | Collection, keep: tuple[str, ...] = ()) -> Json:
    """Without what is not known; only an interval's open end is a null that means something."""
    written: Json = _without_nulls(model.model_dump(mode="json", by_alias=True), keep)
    written["stac_extensions"] = sorted({EXTENSIONS[prefix] for prefix in _prefixes(written) if prefix in EXTENSIONS})
    return written


def _without_nulls(value: Any, keep: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        known = {name: one for name, one in value.items() if one is not None}
        return {name: one if name in keep else _without_nulls(one, keep) for name, one in known.items()}
    return [_without_nulls(one, keep) for one in value] if isinstance(value, list) else value


def _prefixes(value: Any) -> Iterator[str]:
    """The extension prefixes of all names, at any depth."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield name.partition(":")[0] if ":" in name else ""
            yield from _prefixes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _prefixes(one)
