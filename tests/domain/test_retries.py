"""Retry in Prefect's UI: through the fence, followed by the request, refused with the reason where it is too late."""

import asyncio

from tests.support.acts import Flow, call, dispatched, started, submit
from tests.support.platform import Domain


async def retried(flow: Flow, run_count: int) -> Flow:
    """The flow run begun anew by Prefect, with the parameters that it was created with."""
    answer = await flow.start(run_count=run_count)
    assert answer.status_code == 200, answer.text
    return Flow(flow.domain, flow.run_id, answer.json()["attempt_token"], flow.flow_run_id)


def attempts(domain: Domain) -> list[tuple[object, ...]]:
    return domain.rows("select number, state from app.attempts order by 1")


async def test_retry_reopens_a_failed_run_with_its_memory_and_its_request(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.beat({"node_id": "validate", "state": "completed"}, {"node_id": "make_cog", "state": "failed"})
    await flow.fail()
    assert domain.rows("select status from app.requests") == [("failed",)]
    answer = (await flow.start(run_count=2)).json()
    assert (answer["facts"]["attempt"], answer["memory"]) == (2, 1)
    assert domain.rows("select status, problem from app.requests") == [("processing", None)]
    states = "select state from app.run_nodes where node_id in ('validate', 'make_cog') order by node_id desc"
    assert domain.rows(states) == [("completed",), ("pending",)]
    assert domain.rows("select actor, action from app.audit") == [("prefect", "rerun")]
    assert (await flow.commit()).status_code == 409, "the first attempt is over"


async def test_a_flow_run_may_be_retried_again_and_again(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    for run_count in (2, 3, 4):
        again = await retried(flow, run_count)
        assert (await again.fail()).json()["state"] == "failed"
    last = await retried(flow, 5)
    assert (await last.commit()).json()["state"] == "completed"
    assert [state for _, state in attempts(domain)] == ["failed"] * 4 + ["committed"]


async def test_repeated_retry_is_given_the_same_answer(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    first, second = await asyncio.gather(flow.start(run_count=2), flow.start(run_count=2))
    assert first.json() == second.json()
    assert attempts(domain) == [(1, "failed"), (2, "started")]
    assert (await flow.start()).status_code == 409, "what is left of the first try"


async def test_retried_run_counts_its_attempts_anew(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    again = await retried(flow, 2)
    assert (await again.fail("lost")).json()["state"] == "pending"
    assert (await (await started(domain)).fail("lost")).json()["state"] == "pending"
    assert (await (await started(domain)).fail("lost")).json()["state"] == "failed"


async def test_retry_of_a_parked_run_reopens_it(domain: Domain) -> None:
    await submit(domain)
    for _ in range(2):
        await (await started(domain)).fail("lost")
    flow = await started(domain)
    await flow.fail("lost")
    assert domain.rows("select reason from app.runs") == [("parked",)]
    again = await retried(flow, 2)
    assert domain.rows("select state, reason from app.runs") == [("running", None)]
    assert (await again.commit()).is_success


async def test_a_retry_before_the_loss_was_noticed_fences_what_may_be_left_of_the_process(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    again = await retried(flow, 2)
    assert (await flow.beat()).json() == {"stop": True}
    assert (await flow.commit()).status_code == 409
    assert attempts(domain) == [(1, "fenced"), (2, "started")]
    assert (await again.commit()).is_success


async def test_a_late_first_start_of_a_run_that_was_given_up_opens_nothing(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    with_flow_run = "update app.attempts set flow_run_id = %s, state = 'fenced' returning 1"
    domain.rows(with_flow_run, flow.flow_run_id)
    domain.rows("update app.runs set state = 'failed', reason = 'parked' returning 1")
    assert (await flow.start()).status_code == 409
    assert domain.rows("select state from app.runs") == [("failed",)]


async def test_retry_of_a_superseded_attempt_is_refused_with_the_reason(domain: Domain) -> None:
    await submit(domain)
    old = await started(domain)
    await old.fail("lost")
    flow = await started(domain)
    refused = await old.start(run_count=2)
    assert (refused.status_code, refused.json()["code"]) == (409, "attempt-fenced")
    assert refused.json()["detail"] == "Attempt 1 was superseded by attempt 2; the run is running."
    assert attempts(domain) == [(1, "failed"), (2, "started")]
    assert (await flow.commit()).is_success


async def test_retry_of_a_cancelled_run_is_refused_with_advice(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", {"reason": "because"})
    refused = await flow.start(run_count=2)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "Attempt 1 is over and the run is cancelled. `cairn rerun` does it again."


async def test_a_retry_of_a_failed_segment_reopens_its_run(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    child = Flow(domain, parent.run_id, parent.token)
    await child.start(segment=1)
    await parent.fail()
    answer = await child.start(segment=1, run_count=2)
    assert (answer.status_code, answer.json()["code"]) == (409, "reopened")
    assert answer.json()["detail"] == "This segment is superseded: its run was reopened as attempt 2."
    assert domain.rows("select state, memory from app.runs") == [("pending", 1)]
    assert domain.rows("select status, problem from app.requests") == [("pending", None)]
    again = await started(domain)
    refused = await child.start(segment=1, run_count=3)
    assert "superseded by attempt 2" in refused.json()["detail"]
    assert (await again.commit()).json()["state"] == "completed"


async def test_one_of_several_racing_retries_reopens_the_run(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    children = [Flow(domain, parent.run_id, parent.token) for _ in range(5)]
    for number, child in enumerate(children):
        await child.start(segment=number + 1)
    await parent.fail()
    retries = [child.start(segment=n + 1, run_count=2) for n, child in enumerate(children)]
    answers = await asyncio.gather(*retries, parent.start(run_count=2))
    assert sorted(answer.json().get("code", "") for answer in answers) in (
        ["", *["attempt-fenced"] * 5],
        [*["attempt-fenced"] * 5, "reopened"],
    )
    assert len(attempts(domain)) == 2


async def test_a_segment_retried_while_its_run_goes_on_works_for_it(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    child = Flow(domain, parent.run_id, parent.token)
    await child.start(segment=1)
    assert (await child.start(segment=1, run_count=2)).is_success
    assert attempts(domain) == [(1, "started")]
