"""Partner vocabulary in, ours out, and back. The only module that knows how a platform words its submissions."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from uuid import UUID

from pydantic import ValidationError

from domain.contracts.platforms import NEEDED, OURS, PARAMETER, FieldRule, PlatformRow
from domain.contracts.submissions import SubmissionCreate
from domain.rules.clearance import Identity
from domain.rules.texts import unstorable_places
from gateway.errors import InvalidSubmission

Json = dict[str, Any]
ABSENT: Final = object()
EXTENSIONS: Final = {
    "raster": (".tif", ".tiff", ".jp2", ".img", ".vrt"),
    "vector": (".gpkg", ".geojson", ".json", ".zip", ".fgb", ".parquet", ".csv"),
}
MEDIA_TYPES: Final = {
    "raster": ("image/tiff", "image/jp2", "image/geotiff"),
    "vector": (
        "application/geo+json", "application/geopackage+sqlite3", "application/vnd.apache.parquet",
        "application/vnd.shp", "application/flatgeobuf", "text/csv",
    ),
}  # fmt: skip


def submission(
    body: Mapping[str, Any], platform: PlatformRow, caller: Identity, request_id: UUID, idempotency_key: str | None
) -> SubmissionCreate:
    """Translate a platform's body into a submission, or raise every fault of it in one refusal."""
    fields, faults = _fields(body, platform)
    if faults:
        raise InvalidSubmission("; ".join(faults) + ".", faults=faults)
    try:
        return SubmissionCreate(
            request_id=request_id,
            platform_id=platform.platform_id,
            client_id=caller.client_id,
            refs={name: _text(fields[name]) for name in platform.refs if name in fields},
            version_label=_text(fields[platform.version_ref]),
            idempotency_key=idempotency_key,
            **{name: fields[name] for name in OURS if name in fields},
        )
    except ValidationError as error:
        raise _invalid(error, platform) from error


def words(submission: SubmissionCreate, platform: PlatformRow) -> Json:
    """Return a submission as its platform would have written it: `submission` turns it back."""
    parameters = dict(submission.parameters)
    fields: Json = {**submission.refs, platform.version_ref: submission.version_label}
    for name in platform.field_mapping:
        if (own := name.removeprefix(PARAMETER)) in parameters and _is_elsewhere(platform, name):
            fields[name] = parameters.pop(own)
    given = submission.model_dump(mode="json", include=set(OURS), exclude_none=True)
    fields |= {name: value for name, value in given.items() if name != "parameters"}
    if parameters:
        fields["parameters"] = parameters
    return _body(fields, platform)


def named(body: Mapping[str, Any], platform: PlatformRow) -> Json:
    """Return what the body says of its asset, unchecked: enough to compare two bodies by."""
    places = [(name, path) for name in platform.refs if (path := platform.path(name))]
    return {name: _text(said) for name, path in places if (said := _get(body, path)) is not ABSENT}


def identified(refs: Mapping[str, str], version_label: str, platform: PlatformRow) -> Json:
    """Return which asset and version is meant, in the platform's names and places.

    References that it had when this was submitted, and has no more, have no place now.
    """
    known = {name: value for name, value in refs.items() if name in platform.refs}
    return _body({**known, platform.version_ref: version_label}, platform)


def _body(fields: Mapping[str, Any], platform: PlatformRow) -> Json:
    body: Json = {}
    for name, value in fields.items():
        if path := platform.path(name):
            _put(body, path, _platform_word(platform.rule(name), value))
    return body


def _fields(body: Mapping[str, Any], platform: PlatformRow) -> tuple[Json, list[str]]:
    """Return our fields by name, and the body's faults."""
    named = dict.fromkeys([*platform.refs, platform.version_ref, *OURS, *platform.field_mapping])
    faults = _unknown(body, platform, list(named))
    faults += [
        f"{_safe_name(place)!r} holds what cannot be kept (NUL, half a letter, infinity)"
        for place in unstorable_places(body)
    ]
    fields: Json = {}
    for name in named:
        try:
            value = _value(body, platform, name, fields)
        except LookupError as fault:
            faults.append(str(fault.args[0]))
            continue
        if value is not ABSENT:
            fields[name] = value
    needed = [*platform.required_refs, platform.version_ref, *NEEDED]
    refused = {fault.partition("'")[2].partition("'")[0] for fault in faults}
    faults += [
        f"{platform.path(name)!r} is missing"
        for name in needed
        if name not in fields and platform.path(name) not in refused
    ]
    _gather_parameters(fields, faults, platform)
    return fields, faults


def _gather_parameters(fields: Json, faults: list[str], platform: PlatformRow) -> None:
    """Move single parameters that the platform writes elsewhere to the others, among which they are refused."""
    single = {name.removeprefix(PARAMETER): fields.pop(name) for name in list(fields) if name.startswith(PARAMETER)}
    others = fields.get("parameters", {})
    if not isinstance(others, dict):
        return  # the check of the whole says what is wrong with it
    faults += [
        f"{name!r} may not be given in 'parameters': {_where_it_is_read(platform, PARAMETER + name)}"
        for name in others
        if _is_elsewhere(platform, PARAMETER + name)
    ]
    if single:
        fields["parameters"] = {**others, **single}


def _value(body: Mapping[str, Any], platform: PlatformRow, name: str, known: Json) -> Any:
    """Return what the body says of this field in our words; LookupError says why there is no value."""
    rule = platform.rule(name)
    if rule.constant is not None:
        return rule.constant
    path = platform.path(name) or name
    if name.startswith(PARAMETER) and not _is_elsewhere(platform, name):
        among = f"{platform.path('parameters')}.{name.removeprefix(PARAMETER)}"
        return rule.default if _get(body, among) is ABSENT else ABSENT
    said = _get(body, path)
    if rule.infer:
        return _inferred(path, said, known.get("source", _get(body, platform.path("source") or "source")))
    if said is ABSENT or said is None:
        return ABSENT if rule.default is None else rule.default
    if not rule.values:
        return said
    if not isinstance(said, str) or said not in rule.values:
        raise LookupError(f"{path!r} is none of {', '.join(map(repr, rule.values))}")
    return rule.values[said]


def _is_elsewhere(platform: PlatformRow, name: str) -> bool:
    """Whether this single parameter is written or fixed outside of `parameters`."""
    return name.startswith(PARAMETER) and platform.path(name) != name


def _where_it_is_read(platform: PlatformRow, name: str) -> str:
    """Say where the platform writes this single parameter."""
    path = platform.path(name)
    return "it is always the same" if path is None else f"write it as {path!r}"


def _inferred(path: str, said: Any, source: Any) -> Any:
    """Return the stated data type, as our word or a media type, else the one of the source's name."""
    if said is not ABSENT and said is not None:
        media_type = said.partition(";")[0].strip().lower() if isinstance(said, str) else ""
        return next((kind for kind, types in MEDIA_TYPES.items() if media_type in types), said)
    ending = PurePosixPath(source.partition("?")[0]).suffix.lower() if isinstance(source, str) else ""
    for kind, endings in EXTENSIONS.items():
        if ending in endings:
            return kind
    raise LookupError(f"{path!r} is missing, and the source's name ends in nothing that would tell it")


def _platform_word(rule: FieldRule, value: Any) -> Any:
    """Return the platform's word for our value."""
    return next((word for word, ours in rule.values.items() if str(ours) == str(value)), value)


def _unknown(body: Mapping[str, Any], platform: PlatformRow, named: list[str]) -> list[str]:
    """A fault for each place of the body that no field is read from."""
    read = [name for name in named if not name.startswith(PARAMETER) or _is_elsewhere(platform, name)]
    paths = [path for name in read if (path := platform.path(name))]
    return [
        f"{_safe_name(place)!r} is not a field of a {platform.platform_id} submission (known are {', '.join(paths)})"
        for place in _unread_places(body, "", set(paths))
    ]


def _unread_places(part: Mapping[str, Any], above: str, paths: set[str]) -> Iterator[str]:
    """Yield places of the body that are neither read nor on the way to one that is."""
    for key, value in part.items():
        place = f"{above}.{key}" if above else key
        if place in paths and "." not in key:
            continue
        on_the_way = "." not in key and any(path.startswith(f"{place}.") for path in paths)
        if on_the_way and isinstance(value, Mapping):
            yield from _unread_places(value, place, paths)
        else:
            yield place


def _safe_name(place: str) -> str:
    """Shorten a name that a stranger chose to one harmless line."""
    return re.sub(r"[^\w.$@ -]", "?", place)[:100]


def _get(body: Mapping[str, Any], path: str) -> Any:
    part: Any = body
    for key in path.split("."):
        if not isinstance(part, Mapping) or key not in part:
            return ABSENT
        part = part[key]
    return part


def _put(body: Json, path: str, value: Any) -> None:
    """Write the value at its place, unless another value stands there or on the way."""
    *above, last = path.split(".")
    for key in above:
        body = body.setdefault(key, {})
        if not isinstance(body, dict):
            return
    body.setdefault(last, value)


def _text(value: Any) -> Any:
    """Ids may come as numbers; everything else is left for the check to refuse."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _invalid(error: ValidationError, platform: PlatformRow) -> InvalidSubmission:
    """The check's faults at the places where the platform wrote what is wrong."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        first, *rest = [str(part) for part in fault["loc"]]
        if first == "refs" and rest:
            first, *rest = rest
        name = platform.version_ref if first == "version_label" else first
        place = ".".join([platform.path(name) or name, *rest])
        faults.append(f"{place}: {fault['msg']}")
    return InvalidSubmission("; ".join(faults) + ".", faults=faults)
