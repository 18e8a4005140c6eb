"""An operator's run of a part of a workflow: which nodes it is of, and who is told of its end."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.acts import call, dispatched
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
NODES = "select node_id from app.run_nodes order by position"
FAN = """
workflow_id: parts
version: 1
nodes:
  start: {type: start, next: first}
  first: {handler: echo, next: many}
  many: {type: fan_out, source: "{{ [1, 2] }}", task: {handler: echo}, next: all}
  all: {type: fan_in, next: end}
  end: {type: end}
"""


async def ordered(domain: Domain, **order: Any) -> Any:
    return await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"} | order)


@pytest.mark.parametrize(
    ("order", "part"),
    [
        ({}, None),
        ({"only": ["echo_handler"]}, ["echo_handler"]),
        ({"from": ["echo_handler"]}, ["echo_handler", "end"]),
        ({"only": ["start"], "from": ["end"]}, ["start", "end"]),
    ],
)
async def test_flow_run_is_given_the_nodes_of_its_part(
    domain: Domain, order: dict[str, Any], part: list[str] | None
) -> None:
    assert (await ordered(domain, **order)).status_code == 202
    [flow] = await dispatched(domain)
    told = (await flow.start()).json()
    assert told["only"] == part
    assert [name for (name,) in domain.rows(NODES)] == (part or ["start", "echo_handler", "end"])


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({"only": ["echo_handle"]}, "There is no node 'echo_handle' in echo_test; did you mean 'echo_handler'?"),
        ({"from": ["nowhere"]}, "There is no node 'nowhere' in echo_test"),
    ],
)
async def test_part_that_names_unknown_nodes_is_refused(domain: Domain, order: dict[str, Any], says: str) -> None:
    answer = await ordered(domain, **order)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-submission")
    assert answer.json()["detail"].startswith(says)
    assert domain.rows("select count(*) from app.requests") == [(0,)]


async def test_a_part_that_cannot_run_by_itself_is_refused(shared_database: TestDatabase, tmp_path: Path) -> None:
    add_workflows(tmp_path)
    async with running_domain(shared_database, tmp_path, workflows_dir=tmp_path) as domain:
        answer = await ordered(domain, workflow_id="parts", only=["all"])
        assert (answer.status_code, "runs only together with its fan_out" in answer.json()["detail"]) == (422, True)
        assert (await ordered(domain, workflow_id="parts", only=["many", "all"])).status_code == 202


def add_workflows(folder: Path) -> None:
    (folder / "parts.yaml").write_text(FAN)
    for needed in ("adf_export.yaml", "withdraw_external.yaml"):
        (folder / needed).write_text((WORKFLOWS / needed).read_text())


async def test_rerun_of_a_part_is_of_the_same_part(domain: Domain) -> None:
    await ordered(domain, only=["echo_handler"])
    [flow] = await dispatched(domain)
    await flow.start()
    await flow.commit({})
    for definition in ("pinned", "current"):
        again = {"scope": "all", "definition": definition}
        assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", again)).status_code == 202
        [next_one] = await dispatched(domain)
        assert (await next_one.start()).json()["only"] == ["echo_handler"]
        assert domain.rows(NODES) == [("echo_handler",)]
        await next_one.commit({})


async def test_operator_who_ordered_a_part_is_called_back(domain: Domain) -> None:
    url = "https://example.com/hook"
    refused = await ordered(domain, callback_url=url)
    assert (refused.status_code, refused.json()["code"]) == (422, "callback-refused")
    assert (await call(domain, "operator", "POST", "/clients/operator/callback-secret")).status_code == 201
    assert (await ordered(domain, callback_url="http://127.0.0.1/hook")).status_code == 422
    assert (await ordered(domain, callback_url=url)).status_code == 202
    [flow] = await dispatched(domain)
    await flow.start()
    await flow.commit({})
    told = "select e.url, c.status from app.callbacks c join app.callback_endpoints e using (endpoint_id)"
    assert domain.rows(told) == [(url, "completed")]
