"""Every call that the gateway may make to the domain. All writing happens there."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
from pydantic import BaseModel

from domain.contracts.assets import AssetView, ChangeClearance
from domain.contracts.control import Cancel, RequestStands
from domain.contracts.reviews import Approve, Decision, Reject, Unpublish
from domain.contracts.submissions import SubmissionAnswer, SubmissionCreate
from gateway.domain_client.http_wire import DomainAnswer, Wire
from gateway.errors import RETRY_SECONDS, BehindUnavailable, CoreFailed, DomainRefused, GatewayError


@dataclass(frozen=True)
class DomainClient:
    http: Wire
    service_token: str

    async def submit(self, submission: SubmissionCreate) -> SubmissionAnswer:
        """Hand a submission in, in the gateway's own name. Its id is ours, so asking again is safe."""
        body = submission.model_dump(mode="json")
        for last_try in (False, True):
            try:
                return SubmissionAnswer.model_validate(
                    await self._send("POST", "/api/v1/submit", self.service_token, body)
                )
            except BehindUnavailable:
                if last_try:
                    raise
        raise AssertionError("the loop returns or raises")

    async def approve(self, asset_id: str, ordinal: int, decision: Approve, credential: str) -> Decision:
        """Pass a decision on with the decider's own credential: the domain judges it, not we."""
        return await self._decide(asset_id, ordinal, "approve", decision, credential)

    async def reject(self, asset_id: str, ordinal: int, decision: Reject, credential: str) -> Decision:
        return await self._decide(asset_id, ordinal, "reject", decision, credential)

    async def unpublish(self, asset_id: str, ordinal: int, decision: Unpublish, credential: str) -> Decision:
        return await self._decide(asset_id, ordinal, "unpublish", decision, credential)

    async def change_clearance(
        self, asset_id: str, change: ChangeClearance, if_match: str | None, credential: str
    ) -> AssetView:
        path = f"/api/v1/assets/{asset_id}/clearance"
        answer = await self._send("POST", path, credential, change.model_dump(), if_match=if_match)
        return AssetView.model_validate(answer)

    async def delete_asset(self, asset_id: str, reason: str, if_match: str | None, credential: str) -> None:
        await self._send("DELETE", f"/api/v1/assets/{asset_id}", credential, reason=reason, if_match=if_match)

    async def delete_version(
        self, asset_id: str, ordinal: int, reason: str, if_match: str | None, credential: str
    ) -> None:
        path = f"/api/v1/assets/{asset_id}/versions/{ordinal}"
        await self._send("DELETE", path, credential, reason=reason, if_match=if_match)

    async def cancel(
        self, request_id: UUID, client_id: str | None, reason: str, credential: str | None = None
    ) -> RequestStands:
        """Stop a request: for a client in the gateway's own name, or with an operator's own credential."""
        order = Cancel(reason=reason, client_id=client_id).model_dump()
        path = f"/api/v1/requests/{request_id}/cancel"
        return RequestStands.model_validate(await self._send("POST", path, credential or self.service_token, order))

    async def answers(self) -> bool:
        """Whether the domain is ready."""
        try:
            return (await self.http.get("/readyz")).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    async def _decide(self, asset_id: str, ordinal: int, verb: str, decision: BaseModel, credential: str) -> Decision:
        path = f"/api/v1/assets/{asset_id}/versions/{ordinal}/{verb}"
        return Decision.model_validate(await self._send("POST", path, credential, decision.model_dump()))

    async def _send(
        self,
        method: str,
        path: str,
        credential: str,
        body: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
        if_match: str | None = None,
    ) -> Any:
        """Return the domain's answer, or raise its refusal as ours. Paths are made of ids of ours only."""
        headers = {"Authorization": f"Bearer {credential}".encode()}
        if if_match is not None:
            headers["If-Match"] = if_match.encode("latin-1")  # as it came
        query = {"reason": reason} if reason is not None else None
        try:
            answer = await self.http.request(method, path, json=body, params=query, headers=headers)
        except httpx.HTTPError as error:
            raise BehindUnavailable("The platform's core does not answer. Nothing was lost; try again.") from error
        if answer.is_success:
            return answer.json() if answer.content else None
        raise _refusal(answer)


def _refusal(answer: DomainAnswer) -> GatewayError:
    """The domain's problem document as our own error; anything else counts as an outage."""
    try:
        problem = answer.json()
        known = {name: problem.pop(name) for name in ("status", "code", "title", "detail")}
    except (ValueError, KeyError, AttributeError):
        return BehindUnavailable("The platform's core gave no usable answer.")
    problem.pop("type", None)
    if known["status"] == httpx.codes.INTERNAL_SERVER_ERROR:
        told = "A part of the platform failed at this; its operators see why. Try again later."
        return CoreFailed(told, retry_after_seconds=RETRY_SECONDS)
    return DomainRefused(**known, **problem)
