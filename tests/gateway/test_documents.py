"""The documents: one for each audience, every route in exactly one of them, and examples that run as they stand."""

from typing import Any

import pytest

from gateway.documents import Audience, document
from tests.gateway import world
from tests.gateway.operations import UNDESCRIBED, described, ids_of, operations, routes
from tests.support.platform import Platform


def free_forms(schema: Any, place: str = "") -> list[str]:
    """Where a document says that something is an object, and nothing of what is in it."""
    if isinstance(schema, list):
        return [found for inner in schema for found in free_forms(inner, place)]
    if not isinstance(schema, dict):
        return []
    found = [found for name, inner in schema.items() for found in free_forms(inner, f"{place}/{name}")]
    is_free = schema.get("type") == "object" and not schema.get("properties")
    described = schema.get("additionalProperties")
    return [*found, place] if is_free and described in (None, True) else found


async def test_every_route_is_in_exactly_one_document(platform: Platform) -> None:
    listed = [str(operation) for operation in operations(platform)]
    assert len(listed) == len(set(listed))
    assert routes(platform) == described(platform).keys() | UNDESCRIBED
    assert not described(platform).keys() & UNDESCRIBED


async def test_each_operation_has_a_name_of_its_own(platform: Platform) -> None:
    names = [operation.described["operationId"] for operation in operations(platform)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("audience", list(Audience))
async def test_a_document_is_served_and_complete(platform: Platform, audience: Audience) -> None:
    async with platform.as_(None) as anybody:
        served = (await anybody.get(f"/openapi/{audience.value}.json")).json()
        assert (await anybody.get("/openapi/nobody.json")).status_code == 422
    assert served == document(platform.gateway.app, audience)  # type: ignore[attr-defined]
    assert served["paths"]
    text = str(served)
    for other in set(Audience) - {audience}:
        for path in document(platform.gateway.app, other)["paths"]:  # type: ignore[attr-defined]
            assert f"'{path}'" not in text


@pytest.mark.parametrize("page", ["/docs", "/docs/partner", "/redoc", "/stac/api.html", "/vector/api.html"])
async def test_no_page_is_offered_that_loads_script(platform: Platform, page: str) -> None:
    """It would run where the console is signed in."""
    async with platform.as_(None) as anybody:
        answer = await anybody.get(page, headers={"Accept": "text/html"})
    assert "html" not in answer.headers["content-type"]
    assert answer.status_code >= 400


# What only workflows, platforms, problems and this process's settings can say more of. Each is here deliberately.
FREE = (
    "/RequestResult/properties/outputs",
    "/RequestStatus/properties/identifies",
    "/parameters",  # of a submission: the workflow's inputs
    "/additionalProperties/anyOf",  # of a submission: the platform's own references; of settings: their values
    "/JobEvent/properties/details",
    "/RecentEvent/properties/details",
    "/InputDescription/properties/schema",  # a JSON Schema
    "/OutputDescription/properties/schema",
    "/Execute/properties/inputs",
    "/QualifiedOutputs/properties/value",
)


@pytest.mark.parametrize("audience", [Audience.PARTNER, Audience.OPERATOR])
async def test_every_object_of_a_document_declares_its_members(platform: Platform, audience: Audience) -> None:
    shown = document(platform.gateway.app, audience)  # type: ignore[attr-defined]
    schemas = {name: one for name, one in shown["components"]["schemas"].items() if name != "Problem"}
    free = free_forms([shown["paths"], schemas])
    assert free
    assert [place for place in free if not place.endswith(FREE)] == []


async def test_every_example_of_the_documents_is_answered_as_documented(platform: Platform) -> None:
    ran = 0
    for number, operation in enumerate(operations(platform)):
        if operation.example() is None:
            continue
        known = await operation.needs(platform, resource_id=f"r{number}")
        arguments = operation.call(ids_of(known, operation.path))
        method, path = arguments.pop("method"), arguments.pop("url")
        answer = await world.call(platform, operation.owner, method, path, **arguments)
        assert 200 <= answer.status_code < 300, (str(operation), answer.text)
        ran += 1
    assert ran >= 7
