"""Operators reach named internal services through the gateway: only these, and only some of their paths."""

import logging
from typing import Annotated, Any, Literal

import httpx
from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from domain.rules.clearance import Identity
from domain.shared.together import together
from gateway.auth import Operator
from gateway.errors import MethodNotAllowed, NotFound
from gateway.forwarding.forward import Forwarded, address_behind, forward
from gateway.forwarding.header_policy import INTERNAL, Headers
from gateway.forwarding.proxy_rules import METHODS, ProxyTarget, is_allowed
from gateway.state import Gateway, gateway

log = logging.getLogger("cairn.proxy")
router = APIRouter(prefix="/api/proxy", tags=["proxy"])
State = Annotated[Gateway, Depends(gateway)]
HEALTH_SECONDS = 3.0
WITH_BODY = {"POST", "PUT", "PATCH"}
BODY = {"requestBody": {"content": {"*/*": {}}, "description": "Whatever the target takes"}}
ANSWER: dict[str, Any] = {"description": "What the target answers, whatever its status", "content": {"*/*": {}}}


class TargetHealth(BaseModel):
    status: Literal["ok", "unwell", "unavailable", "unknown"]
    answered: int | None = None


class ProxyHealth(BaseModel):
    """How each target is. `unknown` are those for which no path of health is set."""

    targets: dict[str, TargetHealth]


@router.get("/health")
async def health(caller: Operator, state: State) -> ProxyHealth:
    """Ask every target how it is."""
    targets = state.settings.proxy_targets
    found = await together(*(_health(state, target) for target in targets.values()))
    return ProxyHealth(targets=dict(zip(targets, found, strict=True)))


async def call(target: str, path: str, request: Request, caller: Operator, state: State) -> Forwarded:
    """Pass a call on and stream its answer back. Redirects are told, not followed."""
    found = _target(state, target, path, request.method)
    service = httpx.URL(str(found.url))
    answer = await forward(
        request,
        state.targets,
        INTERNAL,
        added=_credential(found),
        unavailable=f"{target} does not answer.",
        address=address_behind(request, f"{service.path.rstrip('/')}/{path}", service),
        timeouts=httpx.Timeout(found.timeout_seconds, connect=min(5.0, found.timeout_seconds)),
    )
    _note(caller, target, request.method, path, answer.status_code)
    return answer


for _method in METHODS:  # a route each, or the document's operations would share one id
    router.add_api_route(
        "/{target}/{path:path}",
        call,
        methods=[_method],
        name=f"forward_{_method.lower()}",
        response_class=StreamingResponse,
        responses={200: ANSWER},
        openapi_extra=BODY if _method in WITH_BODY else None,
    )


def _target(state: Gateway, name: str, path: str, method: str) -> ProxyTarget:
    """Return the target if this path and method of it may be called."""
    targets = state.settings.proxy_targets
    if name not in targets or not is_allowed(path, targets[name].paths):
        raise NotFound("There is no such target, or this path of it may not be reached from here.")
    if method not in targets[name].methods:
        methods = targets[name].methods
        raise MethodNotAllowed(f"{name} may be asked with {', '.join(methods)} only.", allowed_methods=methods)
    return targets[name]


def _credential(target: ProxyTarget) -> Headers:
    """What the target is shown of who we are."""
    if target.authorization is None:
        return []
    return [(b"authorization", target.authorization.get_secret_value().encode("latin-1"))]


def _note(caller: Identity, target: str, method: str, path: str, status: int) -> None:
    facts = {"client_id": caller.client_id, "target": target, "method": method, "path": path, "status": status}
    log.info("an operator's call was passed on", extra=facts)


async def _health(state: Gateway, target: ProxyTarget) -> TargetHealth:
    if target.health is None:
        return TargetHealth(status="unknown")
    headers = INTERNAL.to_service([], _credential(target))
    url = f"{str(target.url).rstrip('/')}/{target.health.lstrip('/')}"
    try:
        answer = await state.targets.get(url, headers=headers, timeout=HEALTH_SECONDS)
    except httpx.HTTPError:
        return TargetHealth(status="unavailable")
    return TargetHealth(status="ok" if answer.is_success else "unwell", answered=answer.status_code)
