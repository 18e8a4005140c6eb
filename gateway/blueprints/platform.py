"""Partners submit and ask how it stands; reviewers decide."""

from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, Body, Depends, Header, Response
from pydantic import BaseModel, ConfigDict, Field

from domain.contracts.reviews import Approve, Decision, Reject
from domain.contracts.submissions import RequestState
from domain.rules.clearance import STAFF, Identity
from gateway import translate
from gateway.auth import AnyCaller, Partner, Secret
from gateway.errors import Forbidden, NotFound
from gateway.queries import RequestRow
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/platform", tags=["platform"])
State = Annotated[Gateway, Depends(gateway)]
SUBMISSION_EXAMPLE = {
    "dataset_id": "elevation",
    "resource_id": "dem-10m",
    "version_id": "2026-11",
    "data_type": "raster",
    "operation": "ingest",
    "source": "uploads/dem.tif",
    "parameters": {"target_crs": "EPSG:4326"},
}


class Accepted(BaseModel):
    request_id: UUID
    status: RequestState
    status_url: str
    duplicate: bool = False


class ApproveRequest(BaseModel):
    """Approve the revision that a request produced."""

    model_config = ConfigDict(extra="forbid")

    request_id: UUID
    clearance_level: str = Field(pattern="^(ouo|public)$")
    comment: str | None = Field(default=None, max_length=2000)


class RejectRequest(BaseModel):
    """Reject the revision that a request produced."""

    model_config = ConfigDict(extra="forbid")

    request_id: UUID
    reason: str = Field(min_length=3, max_length=2000)


@router.post("/submit", status_code=202)
async def submit(
    body: Annotated[dict[str, Any], Body(examples=[SUBMISSION_EXAMPLE])],
    caller: Partner,
    state: State,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> Accepted:
    """Submit data in your platform's own words. Sending the same again answers with the first request."""
    platform = await state.queries.platform(caller.platform_id or "")
    if platform is None:
        raise Forbidden(f"Platform {caller.platform_id} is not active.")
    submission = translate.submission(body, platform, caller, uuid4(), idempotency_key)
    answer = await state.domain.submit(submission)
    status_url = f"/api/platform/status/{answer.request_id}"
    response.headers["Location"] = status_url
    response.status_code = 200 if answer.duplicate else 202
    return Accepted(**answer.model_dump(), status_url=status_url)


@router.get("/status/{request_id}")
async def status(request_id: UUID, caller: AnyCaller, state: State, response: Response) -> dict[str, Any]:
    """How a request of yours stands."""
    row = await _readable(request_id, caller, state)
    if row.status in {"pending", "processing"}:
        response.headers["Retry-After"] = "2"
    return translate.status(row)


@router.post("/approve")
async def approve(body: ApproveRequest, caller: AnyCaller, secret: Secret, state: State) -> Decision:
    """Approve what a request produced. The domain judges the decision by your own credential."""
    asset_id, ordinal, revision = _version_of(await _readable(body.request_id, caller, state))
    decision = Approve.model_validate(
        {"revision": revision, "clearance_level": body.clearance_level, "comment": body.comment}
    )
    return await state.domain.approve(asset_id, ordinal, decision, secret)


@router.post("/reject")
async def reject(body: RejectRequest, caller: AnyCaller, secret: Secret, state: State) -> Decision:
    """Reject what a request produced, with a reason."""
    asset_id, ordinal, revision = _version_of(await _readable(body.request_id, caller, state))
    return await state.domain.reject(asset_id, ordinal, Reject(revision=revision, reason=body.reason), secret)


async def _readable(request_id: UUID, caller: Identity, state: Gateway) -> RequestRow:
    """The request, if the caller may know of it. Another partner's answers like none at all."""
    row = await state.queries.request(request_id)
    if row is None or not (caller.role in STAFF or row.platform_id == caller.platform_id):
        raise NotFound(f"There is no request {request_id}.")
    return row


def _version_of(row: RequestRow) -> tuple[str, int, int]:
    if row.asset_id is None or row.ordinal is None or row.revision is None:
        raise NotFound("This request has no version to decide about.")
    return row.asset_id, row.ordinal, row.revision
