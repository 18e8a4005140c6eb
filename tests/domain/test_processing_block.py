"""A run's record: what ran each stage, with what, since when it stands so, and what it waits for."""

from typing import Any
from uuid import UUID, uuid4

from domain.repositories.sweep import Sweep
from flows.runs.events import LONGEST_PARAMETERS, shown_parameters
from tests.support.acts import Flow, call, dispatched, started, submit
from tests.support.platform import Domain


async def record_of(domain: Domain, run_id: UUID) -> dict[str, Any]:
    answer = await call(domain, "operator", "GET", f"/runs/{run_id}")
    assert answer.status_code == 200, answer.text
    record: dict[str, Any] = answer.json()
    return record


def stage(record: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(stage for stage in record["stages"] if stage["id"] == name)
    return found


async def with_child(domain: Domain) -> tuple[Flow, Flow]:
    """A run whose child run works for `validate`; it has said so."""
    await submit(domain)
    [flow] = await dispatched(domain)
    child = Flow(domain, flow.run_id, flow.token)
    await flow.start(pool="light", image="cairn/light:7", job_template="docker")
    await child.start(segment=1, pool="gdal", image="cairn/gdal:7", job_template="kubernetes")
    told = [{"flow_run_id": str(child.flow_run_id), "nodes": ["validate", "make_cog"]}]
    assert (await child.say("heartbeat", segment=1, flow_runs=told)).status_code == 200
    return flow, child


async def test_stage_names_the_child_run_that_does_it_with_its_image_and_template(domain: Domain) -> None:
    flow, child = await with_child(domain)
    await flow.beat({"node_id": "fetch", "state": "running", "tries": 1})
    await child.beat({"node_id": "validate", "state": "running", "tries": 1})
    record = await record_of(domain, flow.run_id)
    own, others = str(flow.flow_run_id), str(child.flow_run_id)
    assert stage(record, "fetch")["resources_assigned"] == {
        "pool": "light", "flow_run_id": own, "flow_run_ids": [own],
    }  # fmt: skip
    assert stage(record, "fetch")["compose_file"] == {"job_template": "docker", "image": "cairn/light:7"}
    assert stage(record, "validate")["resources_assigned"] == {
        "pool": "gdal", "flow_run_id": others, "flow_run_ids": [others],
    }  # fmt: skip
    assert stage(record, "validate")["compose_file"] == {"job_template": "kubernetes", "image": "cairn/gdal:7"}
    waits = stage(record, "make_cog")  # it will be the child's too; it has not begun
    assert (waits["resources_assigned"]["flow_run_id"], waits["compose_file"]) == (None, None)
    [attempt] = record["attempts"]
    assert [one["nodes"] for one in attempt["flow_runs"]] == [None, ["validate", "make_cog"]]


async def test_flow_run_of_a_sub_workflow_is_found_and_not_waited_for(domain: Domain) -> None:
    flow, child = await with_child(domain)
    inside = str(uuid4())
    told = [{"flow_run_id": inside, "nodes": ["fetch"]}]
    for _ in ("first", "told again"):
        assert (await flow.say("heartbeat", flow_runs=told)).status_code == 200
    found = await call(domain, "operator", "GET", f"/status/lookup?flow_run_id={inside}")
    assert (found.status_code, found.json()["run_id"]) == (200, str(flow.run_id))
    await flow.fail()
    domain.rows("update app.attempts set finished_at = now() - interval '1 hour' returning 1")
    async with domain.service.database.transaction() as session:
        sweep = Sweep(session)
        [suspect] = await sweep.ended(0)
        assert (await sweep.flow_runs([suspect]))[suspect] == {flow.flow_run_id, child.flow_run_id}


async def test_flow_run_of_another_run_is_not_taken_over(domain: Domain) -> None:
    flow, child = await with_child(domain)
    await submit(domain, refs={"dataset_id": "other", "resource_id": "one"})
    other = await started(domain)
    told = [{"flow_run_id": str(child.flow_run_id), "nodes": ["fetch"]}]
    assert (await other.say("heartbeat", flow_runs=told)).status_code == 200
    found = await call(domain, "operator", "GET", f"/status/lookup?flow_run_id={child.flow_run_id}")
    assert found.json()["run_id"] == str(flow.run_id)


async def test_record_has_a_version_and_says_when_it_changed_last(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    before = await record_of(domain, flow.run_id)
    assert before["record_version"] == "1.0"
    await flow.beat({"node_id": "fetch", "state": "running", "fraction": 0.2})
    begun = await record_of(domain, flow.run_id)
    await flow.beat({"node_id": "fetch", "state": "running", "fraction": 0.4})
    after = await record_of(domain, flow.run_id)
    assert before["updated_at"] < begun["updated_at"] < after["updated_at"] == stage(after, "fetch")["updated_at"]
    await flow.commit()
    ended = await record_of(domain, flow.run_id)
    assert ended["updated_at"] >= ended["finished_at"] > after["updated_at"]


async def test_run_depends_on_those_that_its_step_waits_for(domain: Domain) -> None:
    await submit(domain, operation="ingest_staged")
    domain.rows("update app.runs set depends_on = '{validate}' where step_id = 'catalogue' returning 1")
    runs = dict(domain.rows("select step_id, run_id from app.runs"))
    for step, depends_on in (("validate", []), ("process", ["validate"]), ("catalogue", ["validate"])):
        record = await record_of(domain, runs[step])
        assert record["dependencies"] == [str(runs[name]) for name in depends_on]


async def test_parameters_of_a_stage_are_kept_as_its_handler_was_given_them_without_secrets(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    given = {
        "source": "https://user:word@host/x.tif?sig=abc&v=1",
        "options": {"api_key": "abc", "size": 5, "list": ["Bearer abcdefgh"]},
    }
    await flow.beat({"node_id": "fetch", "state": "running", "tries": 1, "parameters": shown_parameters(given)})
    [(kept,)] = domain.rows("select parameters from app.run_nodes where node_id = 'fetch'")
    assert kept == {
        "source": "https://[redacted]@host/x.tif?sig=[redacted]&v=1",
        "options": {"api_key": "[redacted]", "size": 5, "list": ["Bearer [redacted]"]},
    }
    shown = stage(await record_of(domain, flow.run_id), "fetch")
    assert shown["resolved_parameters"]["options"] == kept["options"]
    assert shown["parameters"] != shown["resolved_parameters"]


def test_parameters_that_are_long_or_cannot_be_kept_are_left_out() -> None:
    assert shown_parameters({"text": "x" * LONGEST_PARAMETERS}) is None
    assert shown_parameters({"text": "a\x00b"}) is None
    assert shown_parameters({"number": float("nan")}) is None
    assert shown_parameters({"number": 1.5, "nothing": None}) == {"number": 1.5, "nothing": None}
