"""Who gets in where, by the route table: each wrong caller is turned away as designed, each owner is let in.

Another partner is answered exactly as for an id that nobody has; no partner is ever shown an id from within.
"""

import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gateway.documents import Audience
from tests.gateway import world
from tests.gateway.operations import UNDESCRIBED, Operation, code_of, described, ids_of, operations, routes, with_target
from tests.gateway.world import Known
from tests.support.platform import Platform

# Names of nodes that are words of answers too: an output of the workflow, and the relation of a link.
WORDS = {"validation", "tiles"}
NEIGHBOURS = ("arcgis-dev", "arcgis-reviewer")
NOT_PARTNERS = ("worker", "gateway")
STRANGER_STATUS = {Audience.PARTNER: {404}, Audience.OPERATOR: {403}}


async def ask(platform: Platform, client_id: str | None, operation: Operation, ids: dict[str, str]) -> httpx.Response:
    arguments = operation.call(ids)
    return await world.call(platform, client_id, arguments.pop("method"), arguments.pop("url"), **arguments)


def unknown(ids: dict[str, str]) -> dict[str, str]:
    """The same names with ids that nobody has."""
    return {name: str(uuid4()) for name in ids} | {"asset_id": uuid4().hex, "ordinal": "7"}


def without(answer: httpx.Response, operation: Operation, ids: dict[str, str]) -> tuple[int, str, Any]:
    """An answer with the ids that were asked for taken out."""
    text = answer.text
    for name in operation.ids:
        text = re.sub(rf"\b{re.escape(ids[name])}\b", f"<{name}>", text)
    return answer.status_code, text, answer.headers.get("content-type")


def assert_tells_nothing(answer: httpx.Response, known: Known, operation: Operation, client_id: str | None) -> None:
    for secret in known.inner:
        assert secret not in answer.text, (str(operation), client_id, answer.text)


@pytest.fixture
async def target(platform: Platform) -> AsyncIterator[None]:
    """Something for operators to reach."""
    state = platform.gateway.app.state  # type: ignore[attr-defined]
    async with with_target() as targets:
        state.gateway.settings.proxy_targets.update(targets)
        yield


@pytest.mark.usefixtures("target")
async def test_every_route_hides_every_id_from_every_wrong_caller(platform: Platform) -> None:
    """By the table of routes: what no document describes is named, and is judged elsewhere or for everybody."""
    platform.domain.rows("update app.platforms set is_active = true where platform_id <> 'internal' returning 1")
    by_route = described(platform)
    assert by_route.keys() == routes(platform) - UNDESCRIBED
    cells = owners = 0
    for number, route in enumerate(sorted(routes(platform) - UNDESCRIBED)):
        operation = by_route[route]
        if operation.audience is Audience.PROBE:
            continue
        known = await operation.needs(platform, resource_id=f"r{number}")
        ids = ids_of(known, operation.path)
        cells += await _wrong_callers(platform, operation, known, ids)
        answer = await ask(platform, operation.owner, operation, ids)
        assert 200 <= answer.status_code < 300, (str(operation), answer.text)
        owners += 1
        if operation.audience is Audience.PARTNER:
            assert_tells_nothing(answer, known, operation, operation.owner)
    print(f"{cells} cells beside {owners} owners' good answers")  # noqa: T201 - the long form's figure
    assert owners >= 40
    assert cells >= 200


async def _wrong_callers(platform: Platform, operation: Operation, known: Known, ids: dict[str, str]) -> int:
    cells = 0
    answer = await ask(platform, None, operation, ids)
    assert (answer.status_code, code_of(answer)) == (401, "unauthenticated"), str(operation)
    for client_id in NOT_PARTNERS:
        answer = await ask(platform, client_id, operation, ids)
        assert (answer.status_code, code_of(answer)) == (403, "forbidden"), (str(operation), client_id)
        cells += 1
    if operation.owner == "ddh-reviewer":  # the right platform, without the scope
        answer = await ask(platform, "ddh-dev", operation, ids)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), str(operation)
        cells += 1
    if operation.audience is Audience.OPERATOR:
        for client_id in ("ddh-dev", "ddh-reviewer", "reviewer"):
            answer = await ask(platform, client_id, operation, ids)
            assert (answer.status_code, code_of(answer)) == (403, "forbidden"), (str(operation), client_id)
            cells += 1
        return cells + 1
    for client_id in NEIGHBOURS:
        for name in operation.ids or {""}:
            cells += 1
            await _as_for_nothing(platform, operation, client_id, known, ids, name)
    return cells + 1


async def _as_for_nothing(
    platform: Platform, operation: Operation, client_id: str, known: Known, ids: dict[str, str], name: str
) -> None:
    """A neighbour with our ids is answered as with one of them made up, and both as if nothing were there."""
    answer = await ask(platform, client_id, operation, ids)
    for inner in (*known.inner, world.CANARY):
        assert inner not in answer.text, (str(operation), client_id, answer.text)
    if not name:  # names no id: what it lists or takes in is the caller's own
        assert known.request_id not in answer.text
        assert known.asset_id not in answer.text
        return
    made_up = ids | ({name: unknown(ids)[name]} if name != "ordinal" else unknown(ids))
    nothing = await ask(platform, client_id, operation, made_up)
    assert answer.status_code == 404, (str(operation), client_id, answer.text)
    assert without(answer, operation, ids) == without(nothing, operation, made_up), (str(operation), client_id)


async def test_no_answer_to_a_partner_names_an_internal_id(platform: Platform) -> None:
    """Requests in every state, read in every way that a partner has."""
    made = [
        await make(platform, resource_id=f"r{number}")
        for number, make in enumerate((world.failed, world.processed, world.approved, world.started, world.submitted))
    ]
    nodes = {row[0] for row in platform.domain.rows("select distinct node_id from app.run_nodes")}
    read = 0
    for known in made:
        for operation in operations(platform):
            if operation.audience is not Audience.PARTNER or operation.method != "GET":
                continue
            answer = await ask(platform, "ddh-dev", operation, ids_of(known, operation.path))
            read += answer.is_success
            for one in made:
                assert_tells_nothing(answer, one, operation, "ddh-dev")
            said = set(re.findall(r'"([\w.]+)"', answer.text))
            assert not said & nodes - WORDS, (str(operation), said & nodes)
            assert "Traceback" not in answer.text
    assert read >= 25


async def test_search_for_internal_ids_finds_a_planted_one(platform: Platform) -> None:
    """The control: operators are shown what partners are not, and the same look finds it."""
    known = await world.started(platform)
    answer = await world.call(platform, "operator", "GET", f"/api/status/job/{known.run_id}")
    assert {known.run_id, known.flow_run_id} <= set(re.findall(r"[0-9a-f-]{36}", answer.text))
