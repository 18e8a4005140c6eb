"""The run's line to the domain: start, heartbeats with node events, commit, fail. All of it fenced by the token."""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from pydantic import ValidationError

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import (
    Commit,
    Fail,
    FlowRunNews,
    Heartbeat,
    HeartbeatAnswer,
    NodeEvent,
    Outcome,
    Registered,
    RunProblem,
    RunRegister,
    RunStart,
    Verdict,
    WorkOrder,
)
from flows.runs.stopping import Stop
from flows.settings import WorkerSettings
from flows.tries.time_budget import OUTAGE_SECONDS

log = logging.getLogger("cairn.reporting")
SEND_EVENTS_SECONDS = 0.5
EVENTS_AT_ONCE = 500
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 5.0  # after an outage the domain hears of every attempt soon
# Work that is done is worth waiting with for as long as an outage may last; news can be told later.
NEWS_SECONDS = 60.0
ANSWER_SECONDS = 10.0
LONGEST_HOLD_SECONDS = 20.0
WORKER_TOLD_SECONDS = 1.0  # as long as a worker takes to its next look
HELD_LOOK_SECONDS = 0.5


class Fenced(Exception):
    """The domain no longer takes anything from this attempt: stop, and write nothing."""


class HeldBack(Exception):
    """The flow run was told to leave before the domain let it start: it has begun nothing."""


class Undelivered(Exception):
    """The domain has not taken a message."""


class DomainUnreachable(Undelivered):
    """The domain did not answer for so long, however often it was asked."""


class MessageRefused(Undelivered):
    """The domain answered that it takes no such message: sent again it would be refused again."""


@dataclass
class AttemptClient:
    """One attempt's line to the domain."""

    http: httpx.AsyncClient
    run_id: UUID
    token: str
    segment: int | None = None  # of a child run: its beats do not speak for its parent
    stop: Stop = field(default_factory=Stop)
    paused: bool = False  # as of the last heartbeat
    news: int = 0  # how often child runs have told something, as far as it was heard
    _events: list[NodeEvent] = field(default_factory=list)
    _flow_runs: list[FlowRunNews] = field(default_factory=list)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _hearers: set[asyncio.Event] = field(default_factory=set)

    async def claim(self, message: RunStart) -> WorkOrder:
        """Claim the attempt and learn what to do. Raises HeldBack where the stop comes before an answer."""
        path, body = f"/api/v1/runs/{self.run_id}/start", message.model_dump(mode="json")
        order = WorkOrder.model_validate(await post(self.http, path, body, self.stop))
        self.token = order.attempt_token
        return order

    def note(self, event: NodeEvent) -> None:
        """Have the event sent with the next heartbeat, which comes soon."""
        self._events.append(event)
        self._wake.set()

    def note_flow_run(self, flow_run_id: UUID, nodes: Sequence[str]) -> None:
        """Have the domain know that this flow run works for these nodes of the run."""
        self._flow_runs.append(FlowRunNews(flow_run_id=flow_run_id, nodes=list(nodes)))
        self._wake.set()

    async def commit(
        self, outputs: dict[str, Any], artifacts: list[Artifact], metrics: Mapping[str, float] | None = None
    ) -> Outcome:
        """Hand in the outcome, be it after an outage. Once this returns, the run is completed.

        Or failed, where nothing of it was taken.
        """
        await self.flush(OUTAGE_SECONDS)
        message = Commit(
            attempt_token=self.token, outputs=outputs, artifacts=artifacts, metrics=dict(metrics) if metrics else None
        )
        return Outcome.model_validate(await self._post("commit", _told(message), OUTAGE_SECONDS))

    async def fail(
        self, problem: RunProblem, verdict: Verdict = "failed", metrics: Mapping[str, float] | None = None
    ) -> None:
        """Report that the run ended without an outcome, and whose doing that was."""
        await self.flush(OUTAGE_SECONDS)
        message = Fail(
            attempt_token=self.token, problem=problem, verdict=verdict, metrics=dict(metrics) if metrics else None
        )
        await self._post("fail", _told(message), OUTAGE_SECONDS)

    @contextmanager
    def hearing(self) -> Iterator[asyncio.Event]:
        """An event that is set when the domain has news of child runs, or when a pause begins or ends."""
        woken = asyncio.Event()
        self._hearers.add(woken)
        try:
            yield woken
        finally:
            self._hearers.discard(woken)

    async def tell_parent(self) -> None:
        """Have the run that waits for this child run look at once. Where this is not heard, it looks later."""
        with contextlib.suppress(Fenced, Undelivered, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._heartbeat(self._message(left_outcome=True), 0)

    async def tell_worker(self, pool: str) -> None:
        """Have the pool's workers look at once for a child run. Where this is not heard, they look a little later."""
        with contextlib.suppress(Fenced, Undelivered, TimeoutError):
            async with asyncio.timeout(WORKER_TOLD_SECONDS):
                await self._heartbeat(self._message(sent_to=pool), 0)

    @asynccontextmanager
    async def beating(self, every_seconds: float) -> AsyncIterator[None]:
        """Send heartbeats and what is noted while the block runs."""
        tasks = [
            asyncio.create_task(self._go_on_after_faults(each, every_seconds))
            for each in (self._beat, self._send_noted)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _go_on_after_faults(self, work: Callable[[float], Awaitable[None]], every_seconds: float) -> None:
        """Begin the work again where a fault ended it: an attempt that nobody speaks for would be taken for lost."""
        while True:
            try:
                return await work(every_seconds)
            except Fenced:
                return self.stop.set("fenced")
            except Exception:
                log.exception("heartbeats met a fault and go on", extra={"run_id": str(self.run_id)})
                await asyncio.sleep(SEND_EVENTS_SECONDS)

    async def _beat(self, every_seconds: float) -> None:
        """Show that the attempt lives. The domain holds its answer until the next beat is due, or there is news."""
        hold_seconds = min(every_seconds, LONGEST_HOLD_SECONDS)
        while not self.stop.is_set():
            known, next_beat = self.news, time.monotonic() + hold_seconds
            held = self._message(wait_seconds=hold_seconds, seen=known if self.segment is None else None)
            try:
                await self._heartbeat(held, NEWS_SECONDS)
            except Undelivered:
                log.warning("heartbeat not delivered", extra={"run_id": str(self.run_id)})
            if self.news == known and time.monotonic() < next_beat:  # a domain that stops lets everybody go
                await asyncio.sleep(SEND_EVENTS_SECONDS)

    async def _send_noted(self, every_seconds: float) -> None:
        """Send what is noted soon after; what could not be sent, with the next or after a while."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), every_seconds if self._events or self._flow_runs else None)
            await asyncio.sleep(SEND_EVENTS_SECONDS)  # let what happens together travel together
            try:
                await self.flush()
            except DomainUnreachable:
                log.warning("node events not delivered", extra={"run_id": str(self.run_id)})

    async def flush(self, silence_seconds: float | None = None) -> None:
        """Send what is noted, and hear whether to stop. One at a time: two messages on their way may change places."""
        async with self._sending:
            await self._send_events(NEWS_SECONDS if silence_seconds is None else silence_seconds)

    async def _send_events(self, silence_seconds: float) -> None:
        self._wake.clear()
        while True:
            events, self._events = self._events[:EVENTS_AT_ONCE], self._events[EVENTS_AT_ONCE:]
            flow_runs, self._flow_runs = self._flow_runs[:EVENTS_AT_ONCE], self._flow_runs[EVENTS_AT_ONCE:]
            message = self._message(events=events, flow_runs=flow_runs or None)
            try:
                await self._heartbeat(message, silence_seconds)
            except MessageRefused as refused:  # kept, they would hold up all that follows, the outcome too
                told = {"run_id": str(self.run_id), "events": len(events), "reason": str(refused)}
                log.warning("node events refused; the run goes on without them", extra=told)
            except DomainUnreachable:
                self._events[:0] = events  # nothing is lost: they go with the next beat
                self._flow_runs[:0] = flow_runs
                raise
            if not self._events and not self._flow_runs:
                return

    def _message(self, **told: Any) -> Heartbeat:
        return Heartbeat(attempt_token=self.token, segment=self.segment, **told)

    async def _heartbeat(self, message: Heartbeat, silence_seconds: float) -> None:
        """Hear whether to stop, whether to begin nothing, and whether child runs have told something."""
        answered = await self._post("heartbeat", message.model_dump(mode="json", exclude_none=True), silence_seconds)
        try:
            answer = HeartbeatAnswer.model_validate(answered)
        except ValidationError as error:
            raise MessageRefused(
                f"The domain answers a heartbeat with what is no answer: {error.error_count()} faults."
            ) from None
        is_new = answer.news > self.news or answer.paused is not self.paused
        self.paused, self.news = answer.paused, max(answer.news, self.news)
        if answer.stop:
            self.stop.set("fenced")
        for woken in self._hearers if is_new else ():
            woken.set()

    async def _post(self, verb: str, body: dict[str, Any], silence_seconds: float) -> Any:
        return await post(self.http, f"/api/v1/runs/{self.run_id}/{verb}", body, silence_seconds=silence_seconds)


def _told(message: Commit | Fail) -> dict[str, Any]:
    """The message as it is sent; a domain of an older release knows of no metrics."""
    return message.model_dump(mode="json", exclude=None if message.metrics else {"metrics"})


async def register(http: httpx.AsyncClient, message: RunRegister, stop: Stop) -> Registered:
    """Have the domain open a run for a flow run that somebody started in Prefect."""
    return Registered.model_validate(await post(http, "/api/v1/runs/register", message.model_dump(mode="json"), stop))


async def post(
    http: httpx.AsyncClient,
    path: str,
    body: dict[str, Any],
    stop: Stop | None = None,
    silence_seconds: float | None = None,
) -> Any:
    """Ask until there is an answer, or for so long. Every message may safely arrive twice.

    A pause is waited out, however long it lasts. A stop ends all waiting.
    """
    allowed = OUTAGE_SECONDS if silence_seconds is None else silence_seconds
    delay, heard_at = FIRST_DELAY_SECONDS, time.monotonic()
    while True:
        try:
            answer = await http.post(path, json=body)
        except httpx.HTTPError as error:
            reason = type(error).__name__
        else:
            if answer.is_success:
                with contextlib.suppress(ValueError):
                    return answer.json()
            reason = f"status {answer.status_code}: {_problem_detail(answer)}"
            if answer.status_code == httpx.codes.CONFLICT:
                raise Fenced(_problem_detail(answer))
            if (held := _held_seconds(answer)) is not None:
                await _wait(held, stop)
                delay, heard_at = FIRST_DELAY_SECONDS, time.monotonic()
                continue
            if answer.is_client_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                raise MessageRefused(f"The domain refuses {path}: {reason}")
        silent = time.monotonic() - heard_at
        if silent + delay > allowed:
            raise DomainUnreachable(f"The domain did not answer {path} in {silent:.0f} s.")
        log.info("the domain did not answer; asking again", extra={"path": path, "reason": reason})
        await _wait(delay, stop)
        delay = min(2 * delay, LONGEST_DELAY_SECONDS)


async def _wait(seconds: float, stop: Stop | None) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if stop is not None and stop.is_set():
            raise HeldBack("The flow run was told to leave before the domain let it begin.")
        await asyncio.sleep(min(seconds, HELD_LOOK_SECONDS))


def _held_seconds(answer: httpx.Response) -> float | None:
    """How long to wait where the domain is paused; None where it is not."""
    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
        return None
    try:
        problem = answer.json()
        return float(problem["retry_after_seconds"]) if problem["code"] == "paused" else None
    except (ValueError, KeyError, TypeError):
        return None


def _problem_detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


def domain_http(settings: WorkerSettings) -> httpx.AsyncClient:
    """A client with the workers' credential."""
    token = settings.worker_token.get_secret_value()
    return httpx.AsyncClient(
        base_url=str(settings.domain_url),
        headers={"Authorization": f"Bearer {token}"},
        timeout=httpx.Timeout(ANSWER_SECONDS, read=ANSWER_SECONDS + LONGEST_HOLD_SECONDS),
        verify=_tls_context(settings.domain_ca_file),
    )


@cache
def _tls_context(own_authority: Path | None) -> ssl.SSLContext:
    """Loading the authorities takes 16 ms and a megabyte: once for the process, which may run hundreds of flows."""
    context = httpx.create_ssl_context()
    if own_authority is not None:
        context.load_verify_locations(own_authority)
    return context
