"""Items of fan-outs, read from the run's memory: the last word on each, in order, page by page."""

from typing import Any

import pytest

from flows.memory.ledger import Ledger, LedgerEntry
from tests.support.acts import Flow, call, started, submit
from tests.support.platform import Domain


def remember(domain: Domain, flow: Flow, node: str, writer: str = "w", memory: int = 1, **changes: Any) -> None:
    facts: dict[str, Any] = {"digest": "d", "state": "completed", "tries": 1, "worker": "light-1"}
    times = {"started_at": 1000.0, "ended_at": 1001.0}
    entry = LedgerEntry(node=node, **(facts | times | {"key": f"k{changes['index']}"} | changes))
    Ledger(domain.service.zones.runs, f"{flow.run_id}/m{memory}", writer).record(entry)


async def items(domain: Domain, flow: Flow, node: str, query: str = "", by: str = "reviewer") -> dict[str, Any]:
    answer = await call(domain, by, "GET", f"/runs/{flow.run_id}/nodes/{node}/items{query}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


@pytest.fixture
async def flow(domain: Domain) -> Flow:
    """A run of five items, of which one failed first and one for good."""
    await submit(domain)
    made = await started(domain)
    await made.beat({"node_id": "make_cog", "state": "running", "items_total": 6})
    for index in (4, 0, 2, 1):
        remember(domain, made, "make_cog", index=index)
    broken = {"code": "broken-raster", "message": "Band 1 is missing.", "node_id": "make_cog"}
    for writer, index in (("w", 3), ("other", 1)):
        remember(domain, made, "make_cog", writer, index=index, state="failed", error=broken, ended_at=9000.0)
    return made


async def test_each_item_shows_once_and_its_success_outweighs_failures(domain: Domain, flow: Flow) -> None:
    page = await items(domain, flow, "make_cog")
    assert [(one["index"], one["key"], one["state"]) for one in page["items"]] == [
        (0, "k0", "completed"),
        (1, "k1", "completed"),
        (2, "k2", "completed"),
        (3, "k3", "failed"),
        (4, "k4", "completed"),
    ]
    assert (page["total"], page["completed"], page["failed"], page["next"]) == (6, 4, 1, None)
    assert page["items"][3]["problem"]["message"] == "Band 1 is missing."
    assert page["items"][0]["started_at"] == "1970-01-01T00:16:40Z"


async def test_pages_follow_each_other_and_may_be_of_one_state(domain: Domain, flow: Flow) -> None:
    seen, after = [], -1
    while True:
        page = await items(domain, flow, "make_cog", f"?limit=2&state=completed&after={after}")
        seen += [one["index"] for one in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == [0, 1, 2, 4]


async def test_items_of_a_discarded_memory_are_not_shown(domain: Domain, flow: Flow) -> None:
    await flow.fail()
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", {"scope": "all"})
    assert (await items(domain, flow, "make_cog"))["items"] == []
    remember(domain, flow, "make_cog", memory=2, index=0)
    assert len((await items(domain, flow, "make_cog"))["items"]) == 1


async def test_items_within_a_sub_workflow_are_found_by_its_path(domain: Domain, flow: Flow) -> None:
    remember(domain, flow, "make_cog__3.inner", index=0)
    page = await items(domain, flow, "make_cog__3.inner")
    assert (len(page["items"]), page["total"]) == (1, None)


@pytest.mark.parametrize(("node", "status"), [("nobody", 404), ("..", 404), ("make_cog..inner", 422), ("_nodes", 422)])
async def test_items_of_an_unknown_node_are_not_read(domain: Domain, flow: Flow, node: str, status: int) -> None:
    answer = await call(domain, "operator", "GET", f"/runs/{flow.run_id}/nodes/{node}/items")
    assert answer.status_code == status
