"""An operator's run of a part of a workflow: which nodes it is of, and who is told of its end."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows.compiler.part_needs import needs
from tests.flows.compiler.support import plan_of
from tests.support.acts import Flow, call, dispatched
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
        ({"only": ["start"], "from": ["end"], "outputs": {"echo_handler": {"echoed_params": {}}}}, ["start", "end"]),
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


NODES_THAT_READ = """
  start: {type: start, next: first}
  first: {handler: echo, params: {word: "{{ inputs.word }}"}, next: way}
  way: {type: conditional, condition: "{{ inputs.word }} == 'hello'", on_true: second, on_false: other}
  second: {handler: echo, params: {told: "{{ nodes.first.output.echoed_params }}"}, next: last}
  other: {handler: echo, next: last}
  last:
    depends_on: {any_of: [second, other]}
    handler: echo
    params: {maybe: "{{ nodes.other.output.echoed_params | default(none) }}"}
    next: end
  end: {type: end}
"""
INPUTS, OUTPUTS = "{word: {type: string, default: hello}}", '{told: "{{ nodes.first.output.echoed_params }}"}'
READS = f"workflow_id: reads\nversion: 1\ninputs: {INPUTS}\nnodes:\n{NODES_THAT_READ}\noutputs: {OUTPUTS}\n"


@pytest.fixture
async def reading(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    add_workflows(tmp_path)
    (tmp_path / "reads.yaml").write_text(READS)
    async with running_domain(shared_database, tmp_path, workflows_dir=tmp_path) as domain:
        yield domain


async def completed_run(domain: Domain) -> Flow:
    assert (await ordered(domain, workflow_id="reads", inputs={"word": "good day"})).status_code == 202
    [flow] = await dispatched(domain)
    await flow.start()
    await flow.beat({"node_id": "first", "state": "completed"}, {"node_id": "second", "state": "skipped"})
    await flow.commit({})
    return flow


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({"only": ["second"]}, "second reads what first returns. Name a run"),
        ({"from": ["last"]}, "outputs reads what first returns"),
        ({"only": ["second"], "outputs": {"firts": {}}}, "of 'firts', which is no node outside"),
        ({"only": ["second"], "outputs": {"second": {}}}, "of 'second', which is no node outside"),
        ({"outputs": {"first": {}}}, "taken over by a part of a workflow alone"),
        ({"only": ["second"], "outputs": {"first": "x" * 200_000}}, "more than 200,000 bytes"),
        ({"only": ["second"], "outputs_of": str(uuid4())}, "is no run of reads"),
    ],
)
async def test_part_that_reads_what_nobody_knows_is_refused_with_what_is_missing(
    reading: Domain, order: dict[str, Any], says: str
) -> None:
    answer = await ordered(reading, workflow_id="reads", **order)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-submission")
    assert says in answer.json()["detail"]


async def test_part_is_told_what_an_earlier_run_knows_and_takes_its_inputs(reading: Domain) -> None:
    earlier = await completed_run(reading)
    order: dict[str, Any] = {"workflow_id": "reads", "from": ["second"], "outputs_of": str(earlier.run_id)}
    assert (await ordered(reading, **order)).status_code == 202
    [flow] = await dispatched(reading)
    told = (await flow.start()).json()
    assert (told["only"], told["inputs"]) == (["second", "last", "end"], {"word": "good day"})
    known = told["known"]
    assert (known["run_id"], known["memory"], known["outputs"]) == (str(earlier.run_id), 1, {})
    assert (known["states"]["first"], known["states"]["second"]) == ("completed", "skipped")
    await flow.commit({})
    order |= {"inputs": {"word": "hello"}, "outputs": {"first": {"echoed_params": 1}}}
    assert (await ordered(reading, **order)).status_code == 202
    [flow] = await dispatched(reading)
    told = (await flow.start()).json()
    assert (told["inputs"], told["known"]["outputs"]) == ({"word": "hello"}, {"first": {"echoed_params": 1}})


async def test_part_whose_earlier_run_did_not_come_so_far_is_refused(reading: Domain) -> None:
    assert (await ordered(reading, workflow_id="reads")).status_code == 202
    [earlier] = await dispatched(reading)
    await earlier.start()
    await earlier.fail()
    answer = await ordered(reading, workflow_id="reads", only=["second"], outputs_of=str(earlier.run_id))
    assert answer.status_code == 422
    assert "second reads what first returns, which is pending in the earlier run" in answer.json()["detail"]


def test_needs_of_a_part_are_what_it_reads_without_a_default_outside_of_it() -> None:
    plan = plan_of(NODES_THAT_READ, inputs=INPUTS, outputs=OUTPUTS)
    assert needs(plan, ["second", "last"]) == {"first": ["second"]}
    assert needs(plan, ["first", "way"]) == {}
    assert needs(plan, ["second", "end"]) == {"first": ["second", "outputs"]}
