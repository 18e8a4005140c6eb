"""Takes submissions through their lives over HTTP, as the gateway and a flow run would."""

from typing import Any
from uuid import uuid4

import httpx

from tests.support.platform import Domain, submission


async def submitted(domain: Domain, **changes: Any) -> str:
    """The id of a request that was accepted just now."""
    async with domain.as_("gateway") as gateway:
        answer = await gateway.post("/api/v1/submit", json=submission(**changes))
    assert answer.status_code == 202, answer.text
    request_id: str = answer.json()["request_id"]
    return request_id


async def started(domain: Domain, request_id: str) -> tuple[str, str]:
    """(run id, token) of the request's attempt, started."""
    [(run_id, number, token)] = domain.rows(
        "select run_id::text, number, token from app.attempts join app.runs using (run_id) where request_id = %s"
        " order by number desc limit 1",
        request_id,
    )
    # What the relay does, without Prefect.
    domain.rows("update app.attempts set state = 'sent' where run_id = %s and number = %s returning 1", run_id, number)
    await worker(domain, f"{run_id}/start", {"attempt_token": token, "flow_run_id": str(uuid4())})
    return run_id, token


async def completed(domain: Domain, request_id: str, outputs: dict[str, Any] | None = None) -> None:
    run_id, token = await started(domain, request_id)
    await worker(domain, f"{run_id}/commit", {"attempt_token": token, "outputs": outputs or {}})


async def failed(domain: Domain, request_id: str, message: str = "Band 1 is missing.") -> None:
    run_id, token = await started(domain, request_id)
    problem = {"code": "no-band", "message": message, "partner_may_read": True}
    await worker(domain, f"{run_id}/fail", {"attempt_token": token, "problem": problem})


async def worker(domain: Domain, path: str, body: dict[str, Any]) -> httpx.Response:
    async with domain.as_("worker") as client:
        answer = await client.post(f"/api/v1/runs/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer
