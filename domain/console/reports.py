"""What a run told of the data, as a page shows it. Pure. Workflows tell what they like: other shapes are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.console.words import number, pairs, size

TOLD = {
    "driver": "Format", "format": "Format", "crs": "CRS", "width": "Width", "height": "Height", "band_count": "Bands",
    "dtype": "Data type", "nodata": "Nodata", "size_mb": "Size", "geometry_type": "Geometries",
    "feature_count": "Features", "sha256": "SHA-256",
}  # fmt: skip
MOST = 500


@dataclass(frozen=True)
class FileFinding:
    code: str
    wrong: str
    remedy: str


@dataclass(frozen=True)
class Band:
    """One band: what it means, and its numbers as text."""

    meaning: str
    dtype: str
    minimum: str
    maximum: str
    mean: str
    valid: str
    nodata: str


@dataclass(frozen=True)
class Report:
    """The verdict, what was wrong and repaired, and what the data holds. Without an outcome nothing was reported."""

    outcome: str | None
    findings: Sequence[FileFinding]
    facts: Mapping[str, str]
    bands: Sequence[Band]
    fields: Mapping[str, str]
    everything: Mapping[str, Any]


def report_of(outputs: Mapping[str, Any] | None) -> Report:
    told = _mapping((outputs or {}).get("validation"))
    findings = [_finding(each) for each in _mappings(told.get("report"))]
    findings = findings or [FileFinding("warning", str(each), "") for each in _list(told.get("warnings"))]
    facts = {title: _fact(name, told[name]) for name, title in TOLD.items() if told.get(name) is not None}
    repairs = (outputs or {}).get("repairs")
    if repairs:
        facts["Repairs"] = pairs(repairs) if isinstance(repairs, dict) else _text(repairs)
    default = ("warn_and_fix" if findings else "green") if told else None
    return Report(
        outcome=str(told["outcome"]) if told.get("outcome") else default,
        findings=findings,
        facts=facts,
        bands=[_band(each) for each in _mappings((outputs or {}).get("bands"))],
        fields={str(name): str(kind) for name, kind in list(_mapping(told.get("fields")).items())[:MOST]},
        everything=told,
    )


def _fact(name: str, value: Any) -> str:
    if name == "size_mb" and isinstance(value, int | float) and not isinstance(value, bool):
        return size(value * 1024**2)  # handlers count so
    return _text(value)


def _finding(told: Mapping[str, Any]) -> FileFinding:
    return FileFinding(*(_text(told.get(name, "")) for name in ("code", "wrong", "remedy")))


def _band(told: Mapping[str, Any]) -> Band:
    names = ("dtype", "minimum", "maximum", "mean", "valid_percent", "nodata")
    return Band(str(told.get("description") or told.get("meaning") or ""), *(_text(told.get(name)) for name in names))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return number(value) if isinstance(value, float) else str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _list(value: Any) -> list[Any]:
    return value[:MOST] if isinstance(value, list) else []
