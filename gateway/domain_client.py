"""Everything the gateway may ask the domain to do. Writing happens there or not at all."""

from dataclasses import dataclass
from typing import Any

import httpx

from domain.contracts.reviews import Approve, Decision, Reject
from domain.contracts.submissions import SubmissionAnswer, SubmissionCreate
from gateway.errors import BehindUnavailable, DomainRefused


@dataclass(frozen=True)
class DomainClient:
    http: httpx.AsyncClient
    service_token: str

    async def submit(self, submission: SubmissionCreate) -> SubmissionAnswer:
        """Hand a submission in, in the gateway's own name. Its id is ours, so asking again is safe."""
        body = submission.model_dump(mode="json")
        for last_try in (False, True):
            try:
                return SubmissionAnswer.model_validate(await self._post("/api/v1/submit", body, self.service_token))
            except BehindUnavailable:
                if last_try:
                    raise
        raise AssertionError("the loop returns or raises")

    async def approve(self, asset_id: str, ordinal: int, decision: Approve, credential: str) -> Decision:
        """Pass a decision on with the decider's own credential: the domain judges it, not we."""
        path = f"/api/v1/assets/{asset_id}/versions/{ordinal}/approve"
        return Decision.model_validate(await self._post(path, decision.model_dump(), credential))

    async def reject(self, asset_id: str, ordinal: int, decision: Reject, credential: str) -> Decision:
        path = f"/api/v1/assets/{asset_id}/versions/{ordinal}/reject"
        return Decision.model_validate(await self._post(path, decision.model_dump(), credential))

    async def answers(self) -> bool:
        """Whether the domain is ready."""
        try:
            return (await self.http.get("/readyz")).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    async def _post(self, path: str, body: dict[str, Any], credential: str) -> Any:
        try:
            answer = await self.http.post(path, json=body, headers={"Authorization": f"Bearer {credential}"})
        except httpx.HTTPError as error:
            raise BehindUnavailable("The platform's core does not answer. Nothing was lost; try again.") from error
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)


def _refusal(answer: httpx.Response) -> DomainRefused | BehindUnavailable:
    """The domain's problem document as our own error; anything else counts as an outage."""
    try:
        problem = answer.json()
        known = {name: problem.pop(name) for name in ("status", "code", "title", "detail")}
    except (ValueError, KeyError, AttributeError):
        return BehindUnavailable("The platform's core gave no usable answer.")
    problem.pop("type", None)
    return DomainRefused(**known, **problem)
