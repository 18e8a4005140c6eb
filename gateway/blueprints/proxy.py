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
from gateway.errors import BehindUnavailable, MethodNotAllowed, NotFound
from gateway.forwarding.forward import Forwarded, as_bytes, as_text
from gateway.forwarding.proxy_rules import METHODS, ProxyTarget, answered_headers, asked_headers, is_allowed
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


async def forward(target: str, path: str, request: Request, caller: Operator, state: State) -> Forwarded:
    """Pass a call on and stream its answer back. Redirects are told, not followed."""
    found = _target(state, target, path, request.method)
    outgoing = state.targets.build_request(
        request.method,
        httpx.URL(f"{str(found.url).rstrip('/')}/{path}").copy_with(query=request.url.query.encode() or None),
        headers=as_bytes(asked_headers(as_text(request.headers.raw), _credential(found))),
        content=await request.body() or None,
        timeout=httpx.Timeout(found.timeout_seconds, connect=min(5.0, found.timeout_seconds)),
    )
    try:
        answer = await state.targets.send(outgoing, stream=True)
    except httpx.HTTPError as error:
        raise BehindUnavailable(f"{target} does not answer.", retry_after_seconds=5) from error
    _note(caller, target, request.method, path, answer.status_code)
    return Forwarded(answer, as_bytes(answered_headers(as_text(answer.headers.raw))))


for _method in METHODS:  # a route each, or the document's operations would share one id
    router.add_api_route(
        "/{target}/{path:path}",
        forward,
        methods=[_method],
        name=f"forward_{_method.lower()}",
        response_class=StreamingResponse,
        responses={200: ANSWER},
        openapi_extra=BODY if _method in WITH_BODY else None,
    )


def _target(state: Gateway, name: str, path: str, method: str) -> ProxyTarget:
    """The target, if it may be asked for this path in this way."""
    targets = state.settings.proxy_targets
    if name not in targets or not is_allowed(path, targets[name].paths):
        raise NotFound("There is no such target, or this path of it may not be reached from here.")
    if method not in targets[name].methods:
        methods = targets[name].methods
        raise MethodNotAllowed(f"{name} may be asked with {', '.join(methods)} only.", allowed_methods=methods)
    return targets[name]


def _credential(target: ProxyTarget) -> str | None:
    return None if target.authorization is None else target.authorization.get_secret_value()


def _note(caller: Identity, target: str, method: str, path: str, status: int) -> None:
    facts = {"client_id": caller.client_id, "target": target, "method": method, "path": path, "status": status}
    log.info("an operator's call was passed on", extra=facts)


async def _health(state: Gateway, target: ProxyTarget) -> TargetHealth:
    if target.health is None:
        return TargetHealth(status="unknown")
    headers = asked_headers([], _credential(target))
    url = f"{str(target.url).rstrip('/')}/{target.health.lstrip('/')}"
    try:
        answer = await state.targets.get(url, headers=headers, timeout=HEALTH_SECONDS)
    except httpx.HTTPError:
        return TargetHealth(status="unavailable")
    return TargetHealth(status="ok" if answer.is_success else "unwell", answered=answer.status_code)
