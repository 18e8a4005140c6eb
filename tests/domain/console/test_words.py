"""How facts are said, and where a run's nodes stand in its graph."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.console.graph import BOX_HEIGHT, BOX_WIDTH, run_graph
from domain.console.maps import WHOLE_EARTH, bounds_of, footprint, outline
from domain.console.reports import FileFinding, report_of
from domain.console.words import duration, event, moment, remark, reviews, size
from domain.contracts.clients import ClientSummary
from domain.contracts.records import Assignment, Resources, Stage


def stage(name: str, *dependencies: str, **facts: Any) -> Stage:
    nothing = dict.fromkeys(
        ("handler", "version", "timeout_seconds", "fraction", "message", "items_total", "items_done", "items_failed",
         "problem", "started_at", "updated_at")
    )  # fmt: skip
    values: dict[str, Any] = {"status": "pending", "type": "task", "tries": 0} | nothing | facts
    return Stage(
        id=name,
        dependencies=list(dependencies),
        parameters={},
        resources_required=Resources(),
        resources_assigned=Assignment(pool=None, flow_run_id=None),
        **values,
    )


@st.composite
def plans(draw: st.DrawFn) -> list[Stage]:
    """Nodes in an order in which each is behind its dependencies."""
    names = [f"n{number}" for number in range(draw(st.integers(0, 12)))]
    return [
        stage(name, *draw(st.lists(st.sampled_from(names[:number]), unique=True, max_size=3)) if number else ())
        for number, name in enumerate(names)
    ]


@given(plans())
def test_boxes_do_not_overlap_and_stand_right_of_their_dependencies(stages: list[Stage]) -> None:
    drawn = run_graph(stages)
    at = {box.id: box for box in drawn.boxes}
    assert len(at) == len(stages)
    for one, other in combinations(drawn.boxes, 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
    for each in stages:
        assert all(at[name].x < at[each.id].x for name in each.dependencies)
    assert len(drawn.lines) == sum(len(each.dependencies) for each in stages)
    assert all(0 <= box.x <= drawn.width - BOX_WIDTH and 0 <= box.y <= drawn.height - BOX_HEIGHT for box in drawn.boxes)


@pytest.mark.parametrize(
    ("facts", "note", "fraction"),
    [
        ({"status": "completed"}, "completed", 1.0),
        ({"status": "running", "fraction": 0.25}, "25%", 0.25),
        ({"status": "running", "items_total": 8, "items_done": 3, "items_failed": 1}, "3 of 8, 1 failed", 0.5),
        ({"status": "pending"}, "pending", 0.0),
    ],
)
def test_box_shows_the_progress_of_its_node(facts: dict[str, Any], note: str, fraction: float) -> None:
    [box] = run_graph([stage("a", **facts)]).boxes
    assert (box.note, box.fraction) == (note, fraction)


def test_sizes_and_durations_are_written_in_readable_units() -> None:
    assert [size(each) for each in (None, 0, 999, 1500, 123_456_789)] == [
        "unknown",
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "123 MB",
    ]
    assert [duration(each) for each in (None, 1.25, 61, 7300)] == ["", "1.2 s", "1 min 1 s", "2 h 1 min"]
    noon = datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    assert moment(noon) == moment(noon.astimezone(UTC)) == "2026-03-01 12:00:00 UTC"


def test_event_is_written_as_a_sentence() -> None:
    facts = {"node": "tiles", "tries": 2, "seconds": "3.5", "items": {"total": 4, "done": 4}}
    assert event("node.completed", facts) == "tiles completed in 3.5 s, 4 of 4 items, try 2"
    assert event("revision.approved", {"actor": "reviewer"}) == "revision approved by reviewer"
    counted = {"actor": "reviewer", "approvals": 1, "approvals_required": 2}
    assert event("revision.approval_given", counted) == "revision approval given by reviewer, 1 of 2 approvals"
    assert event("revision.pending_review", counted) == "revision awaits review again by reviewer"
    assert event("artifacts", {"count": 2, "role": "cog", "size_bytes": 2000}) == "2 × cog made, 2.0 kB"
    assert remark({"reason": "clouds", "problem": None}) == "clouds"


def test_client_list_names_the_platforms_each_client_may_decide_about() -> None:
    keys = ("key_prefix", "key_days", "key_until", "previous_key_until")
    unknown = dict.fromkeys(("revoked_at", "last_used_at", "oidc_issuer", "oidc_subject", *keys))
    usual = {"client_id": "one", "display_name": "", "is_active": True, "created_at": datetime.now(UTC)} | unknown
    told = [
        reviews(ClientSummary.model_validate(usual | {"role": role, "platform_id": "ddh", "scopes": scopes}))
        for role, scopes in (("reviewer", []), ("operator", []), ("partner", []), ("partner", ["review"]))
    ]
    assert told == ["all platforms", "no", "no", "what others of ddh sent"]


@pytest.mark.parametrize("given", [None, "x", [], [1, 2, 3], [1, 2, 3, "4"], [0, 0, float("nan"), 1]])
def test_unusable_bounds_show_the_whole_earth(given: Any) -> None:
    assert bounds_of({"bounds": given}) == WHOLE_EARTH


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["validation", "bands", "report", "warnings", "fields", "repairs", "outcome", "crs", "mean"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_report_is_made_of_any_result_of_a_workflow(told: Any) -> None:
    report = report_of(told if isinstance(told, dict) else {"validation": told, "bands": told, "repairs": told})
    assert all(isinstance(value, str) for value in report.facts.values())


def test_bounds_of_a_raster_in_parts_are_those_of_its_source() -> None:
    assert bounds_of({"validation": {"bounds_wgs84": [1, 2, 3, 4]}}) == (1, 2, 3, 4)
    assert bounds_of({"bounds": [5, 6, 7, 8], "validation": {"bounds_wgs84": [1, 2, 3, 4]}}) == (5, 6, 7, 8)


def test_bounds_across_the_antimeridian_exceed_180_degrees() -> None:
    assert bounds_of({"bounds": [178, -19, -178, -16]}) == (178, -19, 182, -16)
    box = footprint(None, {"bounds": [178, -19, -178, -16]})["features"][0]["geometry"]
    assert box["coordinates"] == [[[178, -19], [182, -19], [182, -16], [178, -16], [178, -19]]]


def test_report_lists_findings_facts_and_bands() -> None:
    told = {"outcome": "warn_and_fix", "crs": "EPSG:32633", "size_mb": 12.5, "nodata": None}
    finding = {"code": "no-nodata", "severity": "fix", "wrong": "It names no nodata.", "remedy": "0 is set."}
    report = report_of({"validation": told | {"report": [finding]}, "bands": [{"dtype": "uint8", "mean": 1 / 3}]})
    assert report.findings == [FileFinding("no-nodata", "It names no nodata.", "0 is set.")]
    assert report.facts == {"CRS": "EPSG:32633", "Size": "13.1 MB"}
    assert (report.bands[0].mean, report.bands[0].nodata) == ("0.333333", "")
    assert report_of({"validation": {"warnings": ["odd"]}}).outcome == "warn_and_fix"
    assert report_of(None).outcome is None


def test_an_outline_is_the_items_geometry_or_a_box_or_nothing() -> None:
    geometry = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}
    assert footprint({"geometry": geometry}, {})["features"][0]["geometry"] == geometry
    assert footprint(None, {})["features"] == []
    box = footprint({"geometry": {"type": "Script"}}, {"bounds": [1, 2, 3, 4]})["features"][0]["geometry"]
    assert box["coordinates"] == [[[1, 2], [3, 2], [3, 4], [1, 4], [1, 2]]]


def test_provenance_is_text_whatever_the_item_holds() -> None:
    assert outline(None) == {}
    item = {"id": "a", "links": [{"rel": "derived_from", "href": ["x"]}, "y"], "properties": {"datetime": 5, "x": 1}}
    assert outline(item) == {"Catalogue item": "a", "Data from": "5", "Derived from": "['x']"}


def test_transitions_are_said_with_what_they_wait_for_and_how_often_items_were_tried() -> None:
    said = [
        event("node.ready", {"node": "tiles", "tries": 2, "before": "running"}),
        event("node.ready", {"node": "tiles", "tries": 0, "before": "pending"}),
        event("node.pending", {"node": "tiles", "before": "running", "attempt": 1}),
        event("node.completed", {"node": "tiles", "items": {"total": 9, "done": 9}, "retries": 4}),
        event("node.running", {"node": "cog", "tries": 3, "retries": 1}),
    ]
    assert said == [
        "tiles waits for try 3", "tiles ready", "tiles waits again, running in attempt 1",
        "tiles completed, 9 of 9 items, 4 tried again", "cog running, try 3",
    ]  # fmt: skip
