"""Prefect's client where a run is taken up, and in a run's own process: an outage is waited out there, not an error.

The stock client asks six times: for a minute where nobody listens, for seven where nobody answers. Then stock code of
workers and engines gives up what it was about, a worker even itself with all that it runs. Everything else, as loops
that ask again anyway, keeps the client as it is. Leans on one inner name of Prefect's, by which it sends.
"""

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpx
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient

from flows.tries.time_budget import Outlasting

log = logging.getLogger("cairn.prefect")
ENGINE = "prefect.engine"
LOGS = "/logs/"  # are sent by a thread of their own, and given up where they cannot be
_patient: ContextVar[bool] = ContextVar("patient_with_prefect", default=False)
_patient_process = False
_send = PrefectHttpxAsyncClient._send_with_retry  # noqa: SLF001 - nothing public sends for all of Prefect's code
_send_sync = PrefectHttpxSyncClient._send_with_retry  # noqa: SLF001


@contextmanager
def patient() -> Iterator[None]:
    """Wait for Prefect inside the block, and in tasks that are begun there."""
    _install()
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


def be_patient() -> None:
    """Wait for Prefect everywhere in this process."""
    global _patient_process  # noqa: PLW0603 - a fact about the process, told once
    _install()
    _patient_process = True


def be_patient_as_a_run() -> None:
    """The same, if this process is one flow run's own: a container's, or one that was begun without a warm process."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == ENGINE:
        be_patient()


def _install() -> None:
    PrefectHttpxAsyncClient._send_with_retry = _send_or_wait  # type: ignore[method-assign]  # noqa: SLF001
    PrefectHttpxSyncClient._send_with_retry = _send_or_wait_sync  # type: ignore[method-assign]  # noqa: SLF001


def _waits(request: httpx.Request) -> bool:
    return (_patient_process or _patient.get()) and not request.url.path.endswith(LOGS)


async def _send_or_wait(
    self: PrefectHttpxAsyncClient,
    request: httpx.Request,
    send: Callable[..., Awaitable[httpx.Response]],
    *more: Any,
    **named: Any,
) -> httpx.Response:
    waiting = Outlasting()

    async def sent(*arguments: Any, **options: Any) -> httpx.Response:
        while True:
            answer = await _answer_or_fault(send(*arguments, **options))
            pause = _pause(answer, waiting, request)
            if pause is None:
                return _given(answer)
            await asyncio.sleep(pause)

    answer: httpx.Response = await _send(self, request, sent if _waits(request) else send, *more, **named)
    return answer


def _send_or_wait_sync(
    self: PrefectHttpxSyncClient, request: httpx.Request, send: Callable[..., httpx.Response], *more: Any, **named: Any
) -> httpx.Response:
    waiting = Outlasting()

    def sent(*arguments: Any, **options: Any) -> httpx.Response:
        while True:
            answer: httpx.Response | httpx.TransportError
            try:
                answer = send(*arguments, **options)
            except httpx.TransportError as error:
                answer = error
            pause = _pause(answer, waiting, request)
            if pause is None:
                return _given(answer)
            time.sleep(pause)

    answer: httpx.Response = _send_sync(self, request, sent if _waits(request) else send, *more, **named)
    return answer


async def _answer_or_fault(asked: Awaitable[httpx.Response]) -> httpx.Response | httpx.TransportError:
    try:
        return await asked
    except httpx.TransportError as error:
        return error


def _pause(answer: httpx.Response | httpx.TransportError, waiting: Outlasting, request: httpx.Request) -> float | None:
    """How long to wait before asking again; None where this is the answer, whatever it is."""
    if isinstance(answer, httpx.Response) and not answer.is_server_error:
        return None
    pause = waiting.pause(time.monotonic(), random.random())  # noqa: S311 - a spread
    if pause is not None:
        told = str(answer.status_code) if isinstance(answer, httpx.Response) else type(answer).__name__
        log.warning("Prefect does not answer (%s %s: %s); asking again", request.method, request.url.path, told)
    return pause


def _given(answer: httpx.Response | httpx.TransportError) -> httpx.Response:
    if isinstance(answer, httpx.TransportError):
        raise answer
    return answer
