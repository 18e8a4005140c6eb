"""How work goes, for operators: what is tried again, when, and what runs cost."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from domain.api.dependencies import ServiceState, Session
from domain.console.frame import frame
from domain.console.heatmap import heatmap
from domain.console.people import Reader, need
from domain.console.rendering import page
from domain.services.operations.statistics import statistics

router = APIRouter()
WINDOWS = {"1h": 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}


@router.get("/work")
async def work(
    request: Request,
    session: Session,
    state: ServiceState,
    who: Reader,
    window: Annotated[str, Query(pattern="^(1h|24h|7d|30d)$")] = "24h",
) -> Response:
    """The heat map of retries, storms, and what was measured, of a window that ends now."""
    need(who, "operator", "admin")
    around = await frame(request, session, who, "work")
    shown = await statistics(session, WINDOWS[window], state.settings.beacon_silence_seconds)
    return page("work.html", **around, stats=shown, heatmap=heatmap(shown), window=window, windows=list(WINDOWS))
