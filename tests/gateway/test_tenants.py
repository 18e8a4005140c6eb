"""Every way by which a partner can name data, tried on another tenant's: nothing is read, and nothing is told apart
from what is nobody's: not by status, words or headers, and not by the work that the answer takes.

The ways are those of the applications' own documents (`tests/support/tenants.py`). That the owner is answered
otherwise shows that a way names something.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from deployments.stack.state import REPOSITORY
from tests.gateway import world
from tests.support.cluster import TestDatabase
from tests.support.house import (
    OWNER,
    STRANGER,
    House,
    absent,
    cells,
    closed,
    furnished,
    in_front,
    outcome,
    reachable,
    working,
)
from tests.support.library import library
from tests.support.tenants import Names, Operation, judged

# An owner's good call would take away what the other cells are about; `test_isolation` makes it.
TAKES_AWAY = re.compile(r"DELETE|/(cancel|approve|reject|unpublish|withdraw|clearance)$")
TOLD, TEXTS = {"enum", "pattern"}, {"string", "object", "array"}


@pytest.fixture
async def house(database: TestDatabase, tmp_path: Path) -> AsyncIterator[House]:
    async with library(database, tmp_path) as made, in_front(made, database) as platform:
        world.add_people(platform)
        yield await furnished(made, platform)


# Where the owner, too, is answered alike, whichever name it gives: each for its reason.
ALIKE = {
    "header if-match": "judged after the asset, which is the owner's either way",
    "header idempotency-key": "a key that was used with another body is refused: shown by its own test",
    "body source": "no name is looked up before a worker reads it: shown by its own test",
    "body parameters": "there is no such parameter for anybody",
    "body inputs": "as of source",
    "body submissions": "as of source",
    "body content_hash": "judged after the revision",
    "query after": "where a page goes on: a place in an order, that need be no row's",
    "features query ids": "numbers of features in the layer that the path names",
    "features query filter": "not offered",
    "query token": "where a page of one item ends there is no next one",
    "body token": "as of the query's",
}


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_name_of_another_tenant_is_answered_like_an_unused_one(house: House) -> None:
    wrong, told = list[str](), list[int]()
    house.made.memory._seconds = 1e6  # what is remembered in the first round is remembered in the second
    for operation in reachable(house):
        for named in cells(operation):
            for names in house.theirs(operation):
                other = absent(names)
                warm = operation.app in {"serving", "features", "catalogue"}  # what remembers from one call to the next
                with working() as rounds:
                    for each in (names, other) * (1 + warm):
                        rounds.begin()
                        answer = await house.ask(STRANGER, operation, each, named)
                        rounds.end(outcome(answer, each))
                *_, theirs, nothing = rounds.ended
                if theirs != nothing or rounds.ended[0][0] != rounds.ended[1][0]:
                    wrong.append(f"{operation} {named}: {theirs} and {nothing}")
                told.append(theirs[0][0])
    print(f"\nn = {len(told)} cells; {sum(status == 404 for status in told)} of them 404")  # noqa: T201
    assert wrong == [], "\n".join(wrong)
    assert len(told) >= 150


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_owner_is_answered_differently_at_every_route_that_takes_a_name(house: House) -> None:
    """The control: of each way, one of the owner's two assets is told from none."""
    dull = list[str]()
    for operation in reachable(house):
        for named in cells(operation):
            if {named, f"{operation.app} {named}"} & ALIKE.keys() or TAKES_AWAY.search(f"{operation}"):
                continue
            if not [names for names in (house.raster, house.vector) if await _differs(house, operation, names, named)]:
                dull.append(f"{operation} {named}")
    assert dull == [], "\n".join(dull)


async def _differs(house: House, operation: Operation, names: Names, named: str) -> bool:
    other = absent(names)
    answer = await house.ask(OWNER, operation, names, named)
    own = outcome(answer, names)
    return (answer.is_success or answer.status_code == 304 or operation.method != "GET") and own != outcome(
        await house.ask(OWNER, operation, other, named), other
    )


# What a stranger may write in place of a name, by which it might be found all the same.
SPELT = {
    "as it is": lambda name: name,
    "from the root": lambda name: f"/{name}",
    "in capitals": lambda name: name.upper(),
    "behind one's own": lambda name: f"uploads/arcgis/../../{name}",
    "behind one's own, encoded": lambda name: f"uploads/arcgis/%2e%2e/%2e%2e/{name}",
    "encoded": lambda name: quote(name, safe=""),
    "by look-alikes": lambda name: name.replace("/", "\uff0f").replace("d", "\uff44"),
    "with what cannot be seen": lambda name: name.replace("/", "/\u200b"),
    "backwards": lambda name: name.replace("/", "\\"),
    "as GDAL would": lambda name: f"/vsicurl/http://127.0.0.1/{name}",
    "as an address": lambda name: f"https://127.0.0.1/{name}",
    "as a file": lambda name: f"file:///{name}",
    "as ours": lambda name: f"cairn://bronze/{name}",
    "as another store's": lambda name: f"/vsiaz/cairn-bronze/{name}",
    "in two": lambda name: name.replace("/", "//"),
}  # fmt: skip
SENT = {"submit": "gateway POST /api/platform/submit", "batch": "gateway POST /api/gateway/submit/batch",
        "execution": "gateway POST /ogc/processes/{process_id}/execution"}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_source_of_another_tenant_is_refused_unread_however_spelt(house: House) -> None:
    known = {str(operation): operation for operation in reachable(house)}
    for operation in (known[name] for name in SENT.values()):
        field_of = {"submit": "body source", "batch": "body submissions", "execution": "body inputs"}
        named = field_of[operation.path.rpartition("/")[2]]
        for kind in ("upload", "quarantine", "product", "table"):
            for spelling in SPELT.values() if kind == "upload" else (str,):
                both = [
                    replace(each, upload=spelling(getattr(each, kind))) for each in (house.vector, absent(house.vector))
                ]
                with working() as rounds:
                    for names in both:
                        rounds.begin()
                        answer = await house.ask(STRANGER, operation, names, named)
                        rounds.end(outcome(answer, names))
                        assert answer.status_code in {207, 422}, answer.text
                        assert '"status":"pending"' not in answer.text, (operation, kind, names.upload)
                assert rounds.ended[0] == rounds.ended[1], (operation, kind, both[0].upload)
        taken = await house.ask(OWNER, operation, house.vector, named)
        assert taken.is_success, taken.text
        assert "invalid-submission" not in taken.text


async def test_idempotency_key_of_another_tenant_is_like_an_unused_one(house: House) -> None:
    body = {"data_type": "raster", "operation": "ingest", "source": "uploads/arcgis/own.tif"}
    refs = {"item_id": "own", "layer_index": "0", "version": "1"}
    headers, sent = {"Idempotency-Key": house.raster.key}, "/api/platform/submit"
    first = await world.call(house.platform, "arcgis-dev", "POST", sent, json=body | refs, headers=headers)
    again = await world.call(house.platform, "arcgis-dev", "POST", sent, json=body | refs, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["request_id"] == again.json()["request_id"] != house.raster.request
    own = body | {"dataset_id": "x", "resource_id": "y", "version_id": "1", "source": "uploads/ddh/own.tif"}
    reused = await world.call(house.platform, "ddh-dev", "POST", sent, json=own, headers=headers)
    assert reused.json()["code"] == "idempotency-key-reused", "the control: its owner has used it"


def test_free_text_that_partners_give_workflows_names_no_file_but_the_source() -> None:
    """An input that is a text of any kind is looked at here, before a partner can fill it with a path."""
    free = set()
    for path in sorted((REPOSITORY / "workflows").rglob("*.yaml")):
        said = yaml.safe_load(path.read_text())
        if said.get("accepts"):
            free |= {name for name, each in said["inputs"].items() if not TOLD & each.keys() and each["type"] in TEXTS}
    assert free == {"source", "layer"}, "what is new in it: a name of data is judged like the source"


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_every_parameter_is_covered_and_closed_routes_refuse_every_name(house: House) -> None:
    """A parameter that is new asks for a decision in `tests/support/tenants.py`."""
    strange = {
        f"{operation}: {where} {name}"
        for operation in reachable(house)
        for where, name in operation.parameters()
        if not judged(where, name)
    }
    assert strange == set()
    assert not judged("query", "blob_name"), "the control: a parameter that nobody has looked at"
    asked = 0
    for operation in closed(house):
        answers = [
            outcome(await house.ask(STRANGER, operation, names), names)
            for names in (house.raster, absent(house.raster))
        ]
        assert answers[0] == answers[1], operation
        assert answers[0][0] == 403, (str(operation), answers[0])
        asked += 1
    assert asked >= 60
