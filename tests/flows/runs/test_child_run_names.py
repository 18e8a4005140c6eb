"""What a child run is called: what it does, of which asset, for whom; nothing a partner wrote can act there."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.contracts.runs import RunFacts
from flows.runs.child_flow_runs.create import LONGEST_NAME, child_run_name
from tests.domain.test_flow_run_names import HOSTILE


def facts(**changes: Any) -> RunFacts:
    told: dict[str, Any] = {"id": "0123456789", "request_id": "q", "platform_id": "ddh", "attempt": 1}
    told |= {"refs": {"resource_id": "dem", "dataset_id": "elevation"}, "version_label": "v2"}
    return RunFacts(received_at=datetime(2026, 1, 1, tzinfo=UTC), **(told | changes))


def test_a_name_says_what_of_which_asset_for_whom() -> None:
    name = child_run_name("raster_ingest", "gdal", "2/4: tiles 16-31", facts())
    assert name == "raster_ingest · gdal 2/4: tiles 16-31 · elevation/dem v2 of ddh #1"


def test_name_of_a_run_without_an_asset_has_the_beginning_of_its_id() -> None:
    bare = facts(platform_id=None, refs={}, version_label=None, attempt=2)
    assert child_run_name("echo_test", "gdal", "there", bare) == "echo_test · gdal there · 01234567 #2"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_refs_and_labels_lose_their_markup(text: str) -> None:
    name = child_run_name("w", "gdal", "n", facts(refs={"dataset_id": text}, version_label=text))
    assert not set(name) & set("<>[](){}\"'`$:\\\n\x00\x1b\u202e")


@given(st.dictionaries(st.text(max_size=5), st.text(), max_size=8), st.text(), st.text())
def test_name_is_bounded_whatever_refs_are(refs: dict[str, str], label: str, what: str) -> None:
    assert len(child_run_name("w" * 60, "gdal", what, facts(refs=refs, version_label=label))) <= LONGEST_NAME
