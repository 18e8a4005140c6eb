"""OGC API – Processes for partners: the platform's contract for clients that speak the standard."""

from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID, uuid4

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response

from domain.contracts.offers import Offer
from domain.contracts.platforms import PlatformRow
from domain.rules.clearance import Identity
from domain.rules.lifecycle import OPEN_REQUESTS
from domain.rules.paging import to_token
from gateway.auth import Partner, partner
from gateway.blueprints.platform import ClientKey, platform_of
from gateway.edge.conditional_answers import private
from gateway.errors import JobFailed, NotFound, ResultNotReady
from gateway.ogc import descriptions
from gateway.ogc.execution import submission
from gateway.ogc.models import (
    CONFORMANCE,
    EXCEPTIONS,
    Conformance,
    Execute,
    JobList,
    JobStatus,
    LandingPage,
    ProcessDescription,
    ProcessList,
    Results,
    StatusInfo,
    WebLink,
)
from gateway.ogc.queries import JobQueries
from gateway.reads.paging import place_of
from gateway.reads.queries import RequestRow
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/ogc", tags=["ogc"], dependencies=[Depends(partner), Depends(private)])
State = Annotated[Gateway, Depends(gateway)]
OURS = {told: state for state, told in descriptions.STATUSES.items()}
EXAMPLE = {
    "inputs": {
        "dataset_id": "elevation",
        "resource_id": "dem-10m",
        "version_id": "2026-11",
        "source": "uploads/ddh/dem.tif",
        "target_crs": "EPSG:4326",
    }
}


async def base_of(request: Request) -> str:
    """Return the façade's own address as the caller knows it."""
    return f"{str(request.base_url).rstrip('/')}/ogc"


Base = Annotated[str, Depends(base_of)]


@router.get("", response_model_exclude_none=True)
@router.get("/", include_in_schema=False)
async def landing(base: Base) -> LandingPage:
    """Where to begin."""
    return descriptions.landing(base)


@router.get("/conformance")
async def conformance() -> Conformance:
    """The parts of the standard that hold here."""
    return Conformance(conforms_to=CONFORMANCE)


@router.get("/processes", response_model_exclude_none=True)
async def processes(caller: Partner, state: State, base: Base) -> ProcessList:
    """What can be done."""
    platform = await platform_of(caller, state)
    offers = await JobQueries(state.queries, caller).processes()
    served = [offer for offer in offers if descriptions.serves(offer, platform)]
    here = WebLink(href=f"{base}/processes", rel="self", title="These processes")
    return ProcessList(processes=[descriptions.summary(offer, base) for offer in served], links=[here])


@router.get("/processes/{process_id}", response_model_exclude_none=True)
async def process(process_id: str, caller: Partner, state: State, base: Base) -> ProcessDescription:
    """One process, with the inputs that your platform gives it."""
    offer, platform = await _process(process_id, caller, state)
    return descriptions.description(offer, platform, base)


@router.post("/processes/{process_id}/execution", status_code=201, response_model_exclude_none=True)
async def execute(
    process_id: str,
    asked: Annotated[Execute, Body(examples=[EXAMPLE])],
    caller: Partner,
    state: State,
    base: Base,
    response: Response,
    idempotency_key: Annotated[ClientKey | None, Header()] = None,
) -> StatusInfo:
    """Start a job. Asking for the same again answers with the first job."""
    offer, platform = await _process(process_id, caller, state)
    answer = await state.domain.submit(submission(asked, offer, platform, caller, uuid4(), idempotency_key))
    response.headers["Location"] = f"{base}/jobs/{answer.request_id}"
    response.headers["Preference-Applied"] = "respond-async"
    return descriptions.job(await _job(answer.request_id, caller, state), base)


@router.get("/jobs", response_model_exclude_none=True)
async def jobs(
    caller: Partner,
    state: State,
    base: Base,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    process_id: Annotated[str | None, Query(alias="processID", max_length=130)] = None,
    after: Annotated[str | None, Query(max_length=200, description="From the link `next` of the page before")] = None,
) -> JobList:
    """Your platform's jobs, newest first."""
    wanted = [OURS[one] for one in status] if status else None
    rows, behind = await JobQueries(state.queries, caller).jobs(limit, place_of(after), process_id, wanted)
    filters = [*(("status", one) for one in status or ()), *([("processID", process_id)] if process_id else [])]
    following = _jobs_url(base, limit, filters, to_token(behind)) if behind else None
    links = descriptions.page_links(rows, _jobs_url(base, limit, filters, after), following)
    return JobList(jobs=[descriptions.job(row, base) for row in rows], links=links)


@router.get("/jobs/{job_id}", response_model_exclude_none=True)
async def job(job_id: UUID, caller: Partner, state: State, base: Base, response: Response) -> StatusInfo:
    """How a job stands."""
    row = await _job(job_id, caller, state)
    if row.status in OPEN_REQUESTS:
        response.headers["Retry-After"] = "2"
    return descriptions.job(row, base)


@router.get("/jobs/{job_id}/results")
async def results(job_id: UUID, caller: Partner, state: State) -> Results:
    """What a successful job came to."""
    row = await _job(job_id, caller, state)
    match row.status:
        case "completed":
            return descriptions.results(row)
        case "failed":
            problem = row.problem or {}
            raise JobFailed(problem.get("detail", "The job failed."), reason=problem.get("code", "unknown"))
        case "cancelled":
            raise NotFound("The job was dismissed: it has no results.", type=f"{EXCEPTIONS}/no-such-job")
        case _:
            raise ResultNotReady("The job has not ended yet.", type=f"{EXCEPTIONS}/result-not-ready")


@router.delete("/jobs/{job_id}", response_model_exclude_none=True)
async def dismiss(job_id: UUID, caller: Partner, state: State, base: Base) -> StatusInfo:
    """Stop a job that has not ended."""
    await _job(job_id, caller, state)
    await state.domain.cancel(job_id, caller.client_id, "dismissed by its partner")
    return descriptions.job(await _job(job_id, caller, state), base)


async def _process(process_id: str, caller: Identity, state: Gateway) -> tuple[Offer, PlatformRow]:
    """Return the process and the caller's platform, in whose words its inputs are."""
    offer, platform = await JobQueries(state.queries, caller).process(process_id), await platform_of(caller, state)
    if offer is None or not descriptions.serves(offer, platform):
        says = "There is no such process. GET /ogc/processes lists those that are."
        raise NotFound(says, type=f"{EXCEPTIONS}/no-such-process")
    return offer, platform


async def _job(job_id: UUID, caller: Identity, state: Gateway) -> RequestRow:
    """Return the caller's own job, or answer 404 for another platform's."""
    row = await JobQueries(state.queries, caller).job(job_id)
    if row is None:
        raise NotFound(f"There is no job {job_id}.", type=f"{EXCEPTIONS}/no-such-job")
    return row


def _jobs_url(base: str, limit: int, filters: list[tuple[str, str]], after: str | None) -> str:
    query = [("limit", str(limit)), *filters, *([("after", after)] if after else [])]
    return f"{base}/jobs?{urlencode(query)}"
