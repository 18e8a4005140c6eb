"""What operators see of a run in Prefect: recognisable, and nothing a partner wrote can act there."""

import json
import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.loops.relay import flow_run_name, flow_run_tags
from domain.repositories.outbox import Dispatch
from domain.rules.texts import LONGEST_SHOWN, shown

RUN, REQUEST = UUID(int=1), UUID(int=2)
HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "[click](javascript:alert(1))",
    "{{ prefect.blocks.secret.cairn-worker-token }}",
    '{"__prefect_kind": "jinja", "template": "{{ 1 }}"}',
    "__prefect_kind",
    "a\u202etxt.exe",
    "line\nbreak\x00\x1b[31m",
    "${jndi:ldap://x}",
)


def dispatch(**changes: Any) -> Dispatch:
    facts: dict[str, Any] = {
        "run_id": RUN,
        "number": 1,
        "token": "secret-token",
        "workflow_id": "raster_ingest",
        "priority": "normal",
        "request_id": REQUEST,
        "platform_id": "ddh",
        "asset_id": "0123456789abcdef",
        "label": "v2.1",
        "revision": 3,
    }
    return Dispatch(**(facts | changes))


def test_a_name_tells_platform_asset_version_revision_and_attempt() -> None:
    assert flow_run_name(dispatch(number=2)) == "ddh 01234567 v2.1 r3 #2"


def test_a_run_without_an_asset_is_named_after_its_workflow() -> None:
    assert flow_run_name(dispatch(platform_id=None, asset_id=None, label=None, revision=None)) == (
        "raster_ingest 00000000 #1"
    )


def test_tags_tell_platform_workflow_priority_and_request() -> None:
    assert flow_run_tags(dispatch()) == [
        "platform:ddh", "workflow:raster_ingest", "priority:normal", f"request:{REQUEST}",
    ]  # fmt: skip
    assert flow_run_tags(dispatch(platform_id=None))[0] == "workflow:raster_ingest"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_labels_lose_their_markup(text: str) -> None:
    name = flow_run_name(dispatch(label=text))
    assert not set(name) & set("<>[](){}\"'`$:/\\\n\x00\x1b\u202e")
    assert "__" not in name


@given(st.text())
def test_flow_run_name_shows_only_listed_characters(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9.+_-]*", shown(text))
    assert len(shown(text)) <= LONGEST_SHOWN


@given(st.text())
def test_tags_hold_no_label_and_no_token(label: str) -> None:
    one = dispatch(label=label)
    assert flow_run_tags(one) == flow_run_tags(dispatch())
    assert one.token not in json.dumps([flow_run_name(one), flow_run_tags(one)])
