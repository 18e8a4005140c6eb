"""Scratch: whose it is, what it is called, and what is said to whoever would publish it."""

from uuid import uuid4

import pytest

from domain.rules import scratch


def test_two_requests_never_share_a_scratch_asset() -> None:
    first, second = uuid4(), uuid4()
    assert scratch.asset_id("raster_ingest", first) == scratch.asset_id("raster_ingest", first)
    assert scratch.asset_id("raster_ingest", first) != scratch.asset_id("raster_ingest", second)


@pytest.mark.parametrize(
    ("platform", "is_scratch"), [("internal", True), ("ddh", False), ("internal2", False), (None, False)]
)
def test_only_the_internal_platform_holds_scratch(platform: str | None, *, is_scratch: bool) -> None:
    assert scratch.is_scratch(platform) is is_scratch
    assert (scratch.refusal("a1", platform or "") is not None) is is_scratch


@pytest.mark.parametrize(
    ("accepts", "handlers", "kind"),
    [
        ({"data_type": ["vector"]}, ["raster.create_cog"], "vector"),
        ({}, ["raster.blob_to_mount", "vector.convert"], "vector"),
        ({}, ["raster.create_cog", "echo"], "raster"),
        ({}, ["echo"], "other"),
    ],
)
def test_the_kind_of_a_scratch_asset_is_what_its_workflow_makes(
    accepts: dict[str, list[str]], handlers: list[str], kind: str
) -> None:
    assert scratch.data_type(accepts, handlers) == kind
