"""Partner vocabulary: what a platform wrote is what we understood, for any registry row that is allowed."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from domain.contracts.commands import RegisterPlatform
from domain.contracts.platforms import OURS, PlatformRow
from domain.contracts.submissions import SubmissionCreate
from domain.rules.clearance import Identity
from gateway import translate
from gateway.errors import InvalidSubmission

CALLER = Identity("somebody", "partner", "acme")
REQUEST_ID = UUID(int=7)
VALUES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)


def row(**mapping: Any) -> PlatformRow:
    order = {
        "platform_id": "acme",
        "display_name": "Acme",
        "required_refs": ["item_id"],
        "optional_refs": ["layer"],
        "version_ref": "edition",
    }
    registered = RegisterPlatform.model_validate(order | {"field_mapping": mapping})
    return PlatformRow.model_validate(registered.row())


def understood(body: dict[str, Any], platform: PlatformRow) -> dict[str, Any]:
    return translate.submission(body, platform, CALLER, REQUEST_ID, None).model_dump(exclude_defaults=True)


NESTED = row(
    item_id={"path": "item.id"},
    layer={"path": "item.layerIndex"},
    edition={"path": "item.version.label"},
    source={"path": "file.url"},
    data_type={"path": "file.mediaType", "infer": True},
    operation={"constant": "ingest"},
    priority={"path": "urgency", "values": {"asap": "high", "whenever": "low"}, "default": "normal"},
    **{"parameters.target_crs": {"path": "crs"}, "parameters.overview_count": {"default": 3}},
)
BODY: dict[str, Any] = {
    "item": {"id": 12, "layerIndex": 0, "version": {"label": "2026"}},
    "file": {"url": "uploads/dem.tif", "mediaType": "image/tiff; application=geotiff"},
    "urgency": "asap",
    "crs": "EPSG:3857",
    "parameters": {"compression": "zstd"},
}


def test_nested_names_constants_defaults_values_and_media_types_are_understood() -> None:
    made = translate.submission(BODY, NESTED, CALLER, REQUEST_ID, "k")
    assert (made.refs, made.version_label) == ({"item_id": "12", "layer": "0"}, "2026")
    assert (made.data_type, made.operation, made.source, made.priority) == (
        "raster",
        "ingest",
        "uploads/dem.tif",
        "high",
    )
    assert made.parameters == {"compression": "zstd", "target_crs": "EPSG:3857", "overview_count": 3}
    assert (made.platform_id, made.client_id, made.idempotency_key) == ("acme", "somebody", "k")


def test_request_is_shown_in_the_platforms_words() -> None:
    told = translate.words(translate.submission(BODY, NESTED, CALLER, REQUEST_ID, None), NESTED)
    assert told["item"] == {"id": "12", "layerIndex": "0", "version": {"label": "2026"}}
    assert (told["urgency"], told["crs"]) == ("asap", "EPSG:3857")
    assert "operation" not in told
    identified = translate.identified({"item_id": "12"}, "2026", NESTED)
    assert identified == {"item": {"id": "12", "version": {"label": "2026"}}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"item": {"id": 1, "version": {"label": "1"}, "owner": "x"}},
            "'item.owner' is not a field of a acme submission",
        ),
        ({"item.id": 12}, "'item.id' is not a field"),
        ({"platform_id": "other"}, "'platform_id' is not a field"),
        ({"flow_run_id": "x"}, "'flow_run_id' is not a field"),
        ({"attempt_token": "x"}, "'attempt_token' is not a field"),
        ({"item": {"id": 1, "version": {"label": "1"}, "run_id": "x"}}, "'item.run_id' is not a field"),
        ({"operation": "dance"}, "'operation' is not a field"),
        ({"item": "12"}, "'item' is not a field"),
        ({"item": {"id": 1, "version": {}}}, "'item.version.label' is missing"),
        ({"item": {"id": {"$ne": 1}, "version": {"label": "1"}}}, "item.id: "),
        ({"urgency": "soon"}, "'urgency' is none of 'asap', 'whenever'"),
        ({"file": {"url": "uploads/a.exe"}}, "'file.mediaType' is missing, and the source's name ends in nothing"),
        ({"file": {"url": "uploads/a.exe", "mediaType": "video/mp4"}}, "file.mediaType: "),
        ({"parameters": {"target_crs": "EPSG:1"}}, "'target_crs' may not be given in 'parameters': write it as 'crs'"),
        ({"parameters": {"a": "x\0"}}, "'parameters.a' holds what cannot be kept"),
        ({"crs\n<b>": 1}, "'crs??b?' is not a field"),
    ],
)
def test_fault_is_named_at_the_partners_field(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        translate.submission(BODY | changes, NESTED, CALLER, REQUEST_ID, None)
    assert says in refusal.value.detail


FIXED = row(**{"parameters.mode": {"path": "mode", "values": {"small": "s"}}, "parameters.depth": {"constant": 8}})


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"mode": "huge"}, "'mode' may not be given in 'parameters': write it as 'mode'"),
        ({"mode": "s"}, "'mode' may not be given in 'parameters'"),
        ({"depth": 9}, "'depth' may not be given in 'parameters': it is always the same"),
    ],
)
@pytest.mark.parametrize("more", [{}, {"mode": "small"}])
def test_parameter_that_the_mapping_fills_is_refused(
    parameters: dict[str, Any], says: str, more: dict[str, Any]
) -> None:
    plain = {"item_id": "1", "edition": "1", "data_type": "raster", "operation": "ingest", "source": "u/a.tif"}
    with pytest.raises(InvalidSubmission) as refusal:
        translate.submission(plain | more | {"parameters": parameters}, FIXED, CALLER, REQUEST_ID, None)
    assert says in refusal.value.detail
    assert understood(plain | more, FIXED)["parameters"] == {"depth": 8} | ({"mode": "s"} if more else {})


def test_request_is_shown_by_the_references_that_its_platform_still_has() -> None:
    """The registry may change after a submission: a reference goes, and another one takes its place."""
    now = row(layer={"path": "dataset_id.layer"}, edition={"path": "resource_id"})
    before = {"dataset_id": "dem", "resource_id": "1", "edition": "no reference any more", "layer": "0"}
    assert translate.identified(before, "2026", now) == {"dataset_id": {"layer": "0"}, "resource_id": "2026"}


def test_clashing_mappings_show_one_value() -> None:
    """A row that was registered before this was refused."""
    rules = {"layer": {"path": "item_id.layer"}, "edition": {"path": "item_id"}}
    clashing = PlatformRow.model_validate(NESTED.model_dump() | {"field_mapping": rules})
    assert translate.identified({"item_id": "1", "layer": "0"}, "2026", clashing) == {"item_id": "1"}


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("u/a.TIF", "raster"),
        ("u/a.gpkg", "vector"),
        ("u/b.c/a.geojson", "vector"),
        ("https://x.test/a.jp2?v=1", "raster"),
    ],
)
def test_data_type_is_inferred_from_the_sources_name_as_a_last_resort(source: str, kind: str) -> None:
    inferring = row(data_type={"infer": True}, operation={"default": "ingest"})
    body = {"item_id": "1", "edition": "1", "source": source}
    assert understood(body, inferring)["data_type"] == kind
    assert understood(body | {"data_type": "vector"}, inferring)["data_type"] == "vector"


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"colour": {"path": "x"}}, "'colour' is no field of a submission"),
        ({"source": {"infer": True}}, "'source' cannot be inferred"),
        ({"source": {"path": "item_id"}}, "are read at the same place, 'item_id'"),
        ({"source": {"path": "a.b"}, "edition": {"path": "a"}}, "are read at the same place, 'a'"),
        ({"operation": {"constant": "ingest", "path": "x"}}, "a constant is read nowhere"),
        ({"priority": {"values": {"a": "low", "b": "low"}}}, "two of the platform's words"),
        ({"source": {"path": "a..b"}}, "field_mapping"),
        ({"source": {"path": "__class__.x y"}}, "field_mapping"),
        ({"parameters.a": {"values": {"x": "y"}}}, "needs a path"),
        ({"parameters.a": {"values": {"x": "y"}, "path": "parameters.a"}}, "needs a path of its own"),
        ({"source": {"template": "{{ x }}"}}, "template"),
    ],
)
def test_a_mapping_that_cannot_work_is_not_registered(mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        row(**mapping)
    assert says in str(refusal.value)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


@st.composite
def rows(draw: st.DrawFn) -> PlatformRow:
    """Registry rows with fields wherever they may stand; those that are refused are not drawn."""
    mapping: dict[str, Any] = {}
    for name in ("item_id", "layer", "edition", "source", "priority", "callback_url", "parameters.crs"):
        if name == "parameters.crs" or draw(st.booleans()):
            mapping[name] = {"path": draw(PATHS)}
    if draw(st.booleans()):
        mapping["operation"] = draw(st.sampled_from([{"constant": "ingest"}, {"default": "ingest"}]))
    if draw(st.booleans()):
        mapping["data_type"] = {"path": draw(PATHS), "values": {"grid": "raster", "features": "vector"}}
    try:
        return row(**mapping)
    except ValidationError:
        return row()


@st.composite
def submissions(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {
        "refs": {"item_id": draw(VALUES)} | ({"layer": draw(VALUES)} if draw(st.booleans()) else {}),
        "version_label": draw(VALUES),
        "data_type": draw(st.sampled_from(["raster", "vector"])),
        "operation": "ingest",
        "source": draw(VALUES),
        "priority": draw(st.sampled_from(["low", "normal", "high"])),
        "parameters": draw(st.dictionaries(st.sampled_from(["crs", "a", "b"]), VALUES, max_size=3)),
    }
    return made


@given(rows(), submissions())
def test_translation_to_a_platforms_words_and_back_changes_nothing(
    platform: PlatformRow, facts: dict[str, Any]
) -> None:
    meant = SubmissionCreate(request_id=REQUEST_ID, platform_id="acme", client_id="somebody", **facts)
    body = translate.words(meant, platform)
    assert translate.submission(body, platform, CALLER, REQUEST_ID, None) == meant
    assert translate.named(body, platform) == meant.refs


@given(rows(), submissions(), NAMES)
def test_unknown_field_is_always_refused_by_name(platform: PlatformRow, facts: dict[str, Any], name: str) -> None:
    meant = SubmissionCreate(request_id=REQUEST_ID, platform_id="acme", client_id="somebody", **facts)
    body = translate.words(meant, platform)
    known = {path.partition(".")[0] for path in map(platform.path, [*platform.refs, "edition", *OURS]) if path}
    known |= {(platform.path("parameters.crs") or "").partition(".")[0]}
    if name in known:
        return
    with pytest.raises(InvalidSubmission) as refusal:
        translate.submission(body | {name: 1}, platform, CALLER, REQUEST_ID, None)
    assert f"{name!r} is not a field" in refusal.value.detail
