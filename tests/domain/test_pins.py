"""Sub-workflows are pinned when a run is queued: what is published later changes nothing of it."""

from pathlib import Path
from uuid import UUID

from domain.contracts.control import Rerun
from domain.contracts.runs import RunCreate
from domain.repositories.processes import Processes
from domain.repositories.runs import Runs
from domain.security import Identity
from domain.services.operations.workflow_definitions import Definition, Definitions, pinned
from domain.services.runs.control import Control
from domain.services.runs.queueing import InternalRuns
from flows.compiler import compile_files
from flows.handlers.registry import registry
from tests.support.acts import started
from tests.support.platform import Domain

OPERATOR = Identity("operator", "operator")
LEAF = """
workflow_id: leaf
name: Leaf
version: {version}
nodes:
  start: {{type: start, next: say}}
  say: {{handler: echo, params: {{message: "{version}"}}, next: end}}
  end: {{type: end}}
"""
CALLER = """
workflow_id: {name}
name: Caller
version: 1
nodes:
  start: {{type: start, next: sub}}
  sub: {{type: workflow, workflow: {calls}, next: end}}
  end: {{type: end}}
"""


def definitions(folder: Path, leaf_version: int) -> Definitions:
    """`top` runs `middle`, which runs `leaf`, which has this version."""
    texts = {
        "leaf": LEAF.format(version=leaf_version),
        "middle": CALLER.format(name="middle", calls="leaf"),
        "top": CALLER.format(name="top", calls="middle"),
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    compiled = compile_files(sorted(folder.glob("*.yaml")), registry())
    made = {one.plan.workflow_id: Definition(one.plan, one.text) for one in compiled if one.plan}
    assert set(made) == {"leaf", "middle", "top"}, [one.faults for one in compiled]
    return Definitions(pinned(made))


async def queue(domain: Domain, known: Definitions) -> UUID:
    async with domain.service.database.transaction() as session:
        await known.publish(Runs(session), Processes(session))
        return (await InternalRuns(session, known).create(RunCreate(workflow_id="top"), OPERATOR)).run_id


async def rerun(domain: Domain, known: Definitions, run_id: UUID, order: Rerun) -> None:
    async with domain.service.database.transaction() as session:
        await known.publish(Runs(session), Processes(session))
        await Control(session, known, OPERATOR).rerun(run_id, order)


async def test_a_queued_run_keeps_the_sub_workflows_it_was_queued_with(domain: Domain, tmp_path: Path) -> None:
    before, after = definitions(tmp_path, 1), definitions(tmp_path, 2)
    run_id = await queue(domain, before)
    async with domain.service.database.transaction() as session:
        await after.publish(Runs(session), Processes(session))
    flow = await started(domain)
    plans = (await flow.start()).json()["plans"]
    assert {name: plan["version"] for name, plan in plans.items()} == {"middle": 1, "leaf": 1}
    assert domain.rows("select pins -> 'leaf' ->> 'digest' from app.runs") == [(before.by_id["leaf"].plan.digest,)]
    assert plans["leaf"]["digest"] == before.by_id["leaf"].plan.digest
    await flow.fail()
    await rerun(domain, after, run_id, Rerun())
    assert (await (await started(domain)).start()).json()["plans"]["leaf"]["version"] == 1


async def test_a_rerun_on_current_definitions_pins_anew_and_remembers_nothing_of_other_work(
    domain: Domain, tmp_path: Path
) -> None:
    before, after = definitions(tmp_path, 1), definitions(tmp_path, 2)
    run_id = await queue(domain, before)
    await (await started(domain)).fail()
    await rerun(domain, before, run_id, Rerun(definition="current"))
    flow = await started(domain)
    assert (await flow.start()).json()["memory"] == 1, "the same work"
    await flow.fail()
    await rerun(domain, after, run_id, Rerun(definition="current"))
    order = (await (await started(domain)).start()).json()
    assert (order["plans"]["leaf"]["version"], order["memory"]) == (2, 2)


def test_a_workflow_whose_sub_workflow_is_not_ready_is_not_offered(tmp_path: Path) -> None:
    known = dict(definitions(tmp_path, 1).by_id)
    del known["leaf"]
    assert pinned(known) == {}
