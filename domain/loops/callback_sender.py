"""Delivers callbacks. Any number of senders may run; leases keep them out of each other's way.

It must not know what a request is: it sends what the outbox holds and notes what came of it.
"""

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from domain.adapters.callback_delivery import Answer, CallbackPoster
from domain.adapters.sealing import CannotOpen, Vault
from domain.db import OUTAGES, Database, failures_logged, to_the_end
from domain.repositories.callbacks import Callbacks, DueCallback
from domain.rules import callbacks as rules
from domain.rules.callbacks import Again, CallbackState, Delivered, GivenUp, Gone, Verdict

log = logging.getLogger("cairn.callbacks")
EACH_ENDPOINT = 4
LEASE_MARGIN_SECONDS = 30.0
RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class CallbackSender:
    """Claims callbacks and posts them concurrently, so that a slow receiver delays no other."""

    database: Database
    webhooks: CallbackPoster
    vault: Vault
    public_url: str
    delays_seconds: tuple[float, ...]
    poll_seconds: float
    concurrency: int

    async def run(self) -> None:
        """Work until cancelled. What is under way then is sent again by whoever finds its lease run out."""
        under_way: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                claimed = await self._claim(self.concurrency - len(under_way))
                under_way |= {group.create_task(self._deliver(due)) for due in claimed}
                if len(under_way) == self.concurrency or not claimed:
                    await self._pause(under_way)
                under_way = {task for task in under_way if not task.done()}

    async def _pause(self, under_way: set[asyncio.Task[None]]) -> None:
        """Wait until a delivery ends, since its endpoint may have more, or until the time is over."""
        if under_way:
            await asyncio.wait(under_way, timeout=self.poll_seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(self.poll_seconds)

    async def _claim(self, room: int) -> list[DueCallback]:
        lease = self.webhooks.timeout_seconds + LEASE_MARGIN_SECONDS
        try:
            return await to_the_end(self._lease(room, lease))
        except (SQLAlchemyError, OSError) as error:
            log.warning("callbacks cannot be read now", extra={"error": type(error).__name__})
            await asyncio.sleep(RETRY_SECONDS)
            return []

    async def _lease(self, room: int, seconds: float) -> list[DueCallback]:
        async with self.database.transaction() as session:
            return list(await Callbacks(session).claim(room, EACH_ENDPOINT, seconds))

    async def _deliver(self, due: DueCallback) -> None:
        """Make one try. No error about one callback ends the sender, which would meet it again after a restart."""
        try:
            answer = await self._post(due)
            verdict = self._judge(due, answer)
        except Exception as error:  # whatever it is, it is a failed try
            log.exception("a callback could not be tried", extra={"request_id": str(due.request_id)})
            answer = Answer(error=f"not tried to the end: {type(error).__name__}")
            verdict = self._judge(due, answer)
        try:
            await to_the_end(self._record(due, answer, verdict))
        except OUTAGES as error:
            # The lease runs out and the callback is sent again: at least once, as promised.
            log.warning("a delivery could not be noted", extra={"error": type(error).__name__})
        except Exception:  # what cannot be kept of an answer must not have the callback sent for ever
            log.exception("an answer could not be kept", extra={"request_id": str(due.request_id)})
            with contextlib.suppress(*OUTAGES), failures_logged(log, "a delivery could not be noted"):
                await to_the_end(self._record(due, Answer(answer.status, error="its answer cannot be kept"), verdict))

    def _judge(self, due: DueCallback, answer: Answer) -> Verdict:
        wait = rules.retry_after_seconds(answer.retry_after, due.now)
        chance = random.random()  # noqa: S311 - spreads retries, protects nothing
        return rules.judge(answer.status, due.tries, self.delays_seconds, wait, chance)

    async def _post(self, due: DueCallback) -> Answer:
        try:
            secrets = [self.vault.open(sealed) for sealed in due.sealed_secrets]
        except CannotOpen as error:
            log.error("a callback cannot be signed", extra={"reason": str(error)})  # noqa: TRY400 - it says it all
            return Answer(error="not sent: its signing secret cannot be opened")
        if not secrets:
            return Answer(error="not sent: the client has no callback secret")
        message_id, timestamp = rules.webhook_id(due.callback_id), int(due.now.timestamp())
        result_url = f"{self.public_url.rstrip('/')}/api/platform/status/{due.request_id}"
        body = rules.body(due.request_id, due.status, result_url, due.problem)
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": rules.signature(secrets, message_id, timestamp, body),
        }
        return await self.webhooks.post(due.url, headers, body)

    async def _record(self, due: DueCallback, answer: Answer, verdict: Verdict) -> None:
        async with self.database.transaction() as session:
            callbacks = Callbacks(session)
            callbacks.log_delivery(due.callback_id, answer.status, answer.error, answer.excerpt, answer.duration_ms)
            await callbacks.note_endpoint(due.endpoint_id, answered=isinstance(verdict, Delivered))
            match verdict:
                case Delivered():
                    await callbacks.settle(due, CallbackState.DELIVERED)
                case Again(seconds):
                    await callbacks.settle(due, CallbackState.READY, seconds)
                case GivenUp():
                    await callbacks.settle(due, CallbackState.FAILED)
                case Gone():
                    await callbacks.settle(due, CallbackState.DISABLED)
                    await callbacks.disable(due.endpoint_id)
        log.info("callback tried", extra={"request_id": str(due.request_id), "status": answer.status})
