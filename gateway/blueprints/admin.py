"""Operators look at the gateway and at what is going on. Read here: answers while the domain is away."""

from typing import Annotated

import httpx
from fastapi import APIRouter, Depends, Query

from gateway.auth import operator
from gateway.edge.conditional_answers import private
from gateway.errors import BehindUnavailable
from gateway.reads.administration import (
    ActiveJobs,
    Administration,
    Config,
    Health,
    OfferedWorkflows,
    RecentEvents,
    shown,
)
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/admin", tags=["admin"], dependencies=[Depends(operator), Depends(private)])
State = Annotated[Gateway, Depends(gateway)]
Limit = Annotated[int, Query(ge=1, le=500)]
HEALTH_SECONDS = 3.0


async def administration(state: State) -> Administration:
    return Administration(state.queries)


Reading = Annotated[Administration, Depends(administration)]


@router.get("/health")
async def health(state: State) -> Health:
    """What the gateway stands on."""
    return Health(
        database="ok" if await _database_answers(state) else "unavailable",
        domain="ok" if await state.domain.answers() else "unavailable",
        serving="ok" if await _serving_answers(state) else "unavailable",
    )


@router.get("/config")
async def config(state: State) -> Config:
    """The settings of this process, without secrets."""
    return shown(state.settings)


@router.get("/active-jobs")
async def active_jobs(reading: Reading, limit: Limit = 100) -> ActiveJobs:
    """What waits or runs, of every platform."""
    return await reading.active(limit)


@router.get("/recent-events")
async def recent_events(reading: Reading, limit: Limit = 100) -> RecentEvents:
    """What happened last, to requests of every platform."""
    return await reading.events(limit)


@router.get("/workflows")
async def workflows(reading: Reading) -> OfferedWorkflows:
    """What partners may have done."""
    return await reading.workflows()


async def _database_answers(state: Gateway) -> bool:
    try:
        return await state.queries.answers()
    except BehindUnavailable:
        return False


async def _serving_answers(state: Gateway) -> bool:
    try:
        return (await state.serving.get("/readyz", timeout=HEALTH_SECONDS)).is_success
    except httpx.HTTPError:
        return False
