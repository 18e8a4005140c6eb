"""What Prometheus reads of the gateway: for operators and whoever holds the token, never for partners."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.metrics_core import Metric
from psycopg_pool import AsyncConnectionPool

from domain.shared.authentication import required_credential, shown_credential
from domain.shared.metrics import MEDIA_TYPE, METRICS_PATH, Metering, connections, is_token
from gateway.auth import caller, operator
from gateway.state import Gateway, gateway

router = APIRouter(include_in_schema=False)


@router.get(METRICS_PATH, response_class=Response)
async def metrics(request: Request, state: Annotated[Gateway, Depends(gateway)]) -> Response:
    """The figures of this process."""
    if not is_token(shown_credential(request.headers), state.settings.metrics_token):
        await operator(await caller(request, required_credential(request.headers), state))
    metering: Metering = request.app.state.metering
    return Response(metering.text(), media_type=MEDIA_TYPE)


def of_pool(pool: AsyncConnectionPool[Any], name: str) -> Callable[[], Iterable[Metric]]:
    """Return a function that reads the connections of a psycopg pool whenever somebody reads the metrics."""

    def asked() -> Iterable[Metric]:
        told = pool.get_stats()
        yield connections([(name, told["pool_size"] - told["pool_available"], told["pool_max"])])

    return asked
