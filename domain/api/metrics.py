"""What Prometheus reads of the domain."""

from fastapi import APIRouter, Request, Response

from domain.api.dependencies import ServiceState, let_in
from domain.api.gauges import DomainGauges
from domain.shared.authentication import shown_credential
from domain.shared.metrics import MEDIA_TYPE, METRICS_PATH, Metering, is_token

router = APIRouter(tags=["operators"])


@router.get(METRICS_PATH, response_class=Response)
async def metrics(request: Request, state: ServiceState) -> Response:
    """The figures, for whoever shows CAIRN_METRICS_TOKEN, and for operators."""
    if not is_token(shown_credential(request.headers), state.settings.metrics_token):
        await let_in(request, state, "operator", "admin")
    gauges: DomainGauges = request.app.state.gauges
    metering: Metering = request.app.state.metering
    await gauges.refresh()
    return Response(metering.text(), media_type=MEDIA_TYPE)
