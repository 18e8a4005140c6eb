"""Partners submit, ask how it stands, and change their mind."""

import time
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, Body, Depends, Header, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from domain.contracts.control import RequestStands
from domain.contracts.platforms import PlatformRow
from domain.contracts.submissions import Priority, RequestState
from domain.rules.clearance import Identity
from domain.rules.keys import chosen
from domain.rules.lifecycle import OPEN_REQUESTS
from domain.shared.notices import happens_within
from gateway import answers, translate
from gateway.auth import Partner, Reader, Secret
from gateway.documents import SUBMISSION_SCHEMA
from gateway.edge.conditional_answers import conditional, knows, tag_of
from gateway.errors import Forbidden, NotFound
from gateway.reads.queries import RequestRow, reader_of
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/platform", tags=["platform"])
State = Annotated[Gateway, Depends(gateway)]
ASK_AGAIN_SECONDS = 2
LONGEST_WAIT_SECONDS = 30
ClientKey = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(chosen)]
Reason = Annotated[str, Field(min_length=3, max_length=2000)]
SOME_REQUEST = "00000000-0000-4000-8000-000000000000"
SUBMISSION_EXAMPLE = {
    "dataset_id": "elevation",
    "resource_id": "dem-10m",
    "version_id": "2026-11",
    "data_type": "raster",
    "operation": "ingest",
    "source": "uploads/ddh/dem.tif",
    "parameters": {"target_crs": "EPSG:4326"},
}


class Accepted(BaseModel):
    """Where a submission stands. `duplicate` means that an earlier, equal one is being served already."""

    request_id: UUID
    status: RequestState
    status_url: str
    duplicate: bool = False
    priority: Priority = Field(
        default="normal", description="What it waits by: as asked, or the highest that your platform may have"
    )


class AboutRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    request_id: UUID


class CancelRequest(AboutRequest):
    """Stop a request that has not ended."""

    reason: Reason = "cancelled by its partner"


@router.post(
    "/submit",
    status_code=202,
    responses={200: {"model": Accepted, "description": "An equal submission is being served already"}},
)
async def submit(
    body: Annotated[dict[str, Any], Body(examples=[SUBMISSION_EXAMPLE], json_schema_extra=SUBMISSION_SCHEMA)],
    caller: Partner,
    state: State,
    response: Response,
    idempotency_key: Annotated[ClientKey | None, Header()] = None,
) -> Accepted:
    """Submit data in your platform's own words. Sending the same again answers with the first request."""
    platform = await platform_of(caller, state)
    accepted = await accept(body, platform, caller, state, idempotency_key)
    response.headers["Location"] = accepted.status_url
    response.status_code = 200 if accepted.duplicate else 202
    return accepted


@router.get(
    "/status/{request_id}",
    response_model=answers.RequestStatus,
    responses={304: {"description": "It stands as you know it"}},
)
async def status(
    request_id: UUID,
    caller: Reader,
    state: State,
    wait: Annotated[
        int, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to hold the answer while the status stays")
    ] = 0,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """How a request of yours stands. With `wait` the answer comes once its status changes, or the time is over."""
    answer = await _awaited(request_id, caller, state, wait, if_none_match)
    is_open = answer.status in OPEN_REQUESTS
    return conditional(answer, if_none_match, {"Retry-After": str(ASK_AGAIN_SECONDS)} if is_open else {})


@router.post("/cancel")
async def cancel(
    body: Annotated[CancelRequest, Body(examples=[{"request_id": SOME_REQUEST, "reason": "The wrong file"}])],
    caller: Reader,
    secret: Secret,
    state: State,
) -> RequestStands:
    """Stop a request of yours that has not ended. Asked again, the answer is the same."""
    await readable(body.request_id, caller, state)
    if caller.role == "partner":
        return await state.domain.cancel(body.request_id, caller.client_id, body.reason)
    return await state.domain.cancel(body.request_id, None, body.reason, secret)


async def _awaited(
    request_id: UUID, caller: Identity, state: Gateway, wait_seconds: int, if_none_match: str | None
) -> answers.RequestStatus:
    """Wait until the status is another one than the caller knows, or time is over; return the request."""
    deadline, before = time.monotonic() + wait_seconds, None
    with state.notices.watching(request_id) as changed:
        while True:
            changed.clear()  # before reading: what is told meanwhile is looked at
            row = await readable(request_id, caller, state)
            answer = answers.request_status(row, await _words_of(row, state), caller)
            before, rest = before or row.status, deadline - time.monotonic()
            is_news = if_none_match is not None and not knows(if_none_match, tag_of(answer.model_dump_json().encode()))
            is_over = row.status != before or row.status not in OPEN_REQUESTS
            if is_over or is_news or rest <= 0 or state.notices.closed:
                return answer
            await happens_within(changed, rest)


async def platform_of(caller: Identity, state: Gateway) -> PlatformRow:
    """Return the registry row of the partner that the credential belongs to."""
    platform = await state.queries.platform(caller.platform_id or "")
    if platform is None:
        raise Forbidden(f"Platform {caller.platform_id} is not active.")
    return platform


async def accept(
    body: dict[str, Any],
    platform: PlatformRow,
    caller: Identity,
    state: Gateway,
    key: str | None,
    batch: str | None = None,
) -> Accepted:
    """Translate a submission and hand it to the domain, with the mark of its batch."""
    translated = translate.submission(body, platform, caller, uuid4(), key)
    answer = await state.domain.submit(translated.model_copy(update={"batch": batch}))
    return Accepted(**answer.model_dump(), status_url=f"/api/platform/status/{answer.request_id}")


async def readable(request_id: UUID, caller: Identity, state: Gateway) -> RequestRow:
    """Return the request, or answer 404 where the caller may not know of it."""
    row = await state.queries.request(reader_of(caller), request_id)
    if row is None:
        raise NotFound(f"There is no request {request_id}.")
    return row


async def _words_of(row: RequestRow, state: Gateway) -> PlatformRow:
    """Return the registry row of the request's platform, or one in our words where the platform is inactive."""
    platform = await state.queries.platform(row.platform_id)
    plain = PlatformRow(platform_id=row.platform_id, required_refs=[], optional_refs=[], version_ref="version")
    return platform or plain
