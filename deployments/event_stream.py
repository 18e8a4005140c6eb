"""Bounds Prefect's messages in Redis: no stream outgrows its share, and its oldest messages make room.

Prefect's server loads this by name, from PREFECT_MESSAGING_BROKER. Its own broker lets a stream grow for as long as a
reader is behind; in the end Redis takes no writes, and Prefect then refuses every change of a flow run's state. The one
file that leans on the inner structure of `prefect_redis.messaging`, which the exact pin guards.
"""

import asyncio
import logging
import os
from datetime import timedelta
from typing import Any, Final, Self

import orjson
from prefect.server.utilities.messaging import Message, MessageHandler
from prefect_redis import messaging
from prefect_redis.client import get_async_redis_client
from prefect_redis.messaging import break_topic, ephemeral_subscription
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from deployments.scheduled_runs import let_schedules_make_runs

__all__ = ["Consumer", "Publisher", "break_topic", "ephemeral_subscription"]

log = logging.getLogger("cairn.events")
SHARE_MB: Final = "CAIRN_PREFECT_STREAM_MB"
SHARE_BYTES: Final = int(os.environ.get(SHARE_MB, "64")) * 1_000_000
LEFT_OF_SHARE: Final = 0.75  # after messages made room: not every message that comes then drops another
GIVEN_UP_KEPT: Final = 1_000
PERSISTER: Final = "event-persister"
# As task runs and their states, which another reader writes; as rows of their own; and what nobody looks up.
KEPT_OTHERWISE: Final = ("prefect.task-run.", "prefect.artifact", "prefect.flow-run.heartbeat")
# Each is a row. An event is looked up by its run, flow, deployment or pool; runs have their tags and queues themselves.
NOT_LOOKED_UP: Final = frozenset({"tag", "work-queue", "creator"})


class Publisher(messaging.Publisher):  # type: ignore[misc]
    """Publishes a batch in one call and makes room for it."""

    async def __aenter__(self) -> Self:
        let_schedules_make_runs()  # here, because the server loads no other module of ours
        self._client: Redis = get_async_redis_client()
        self._batch: list[messaging.RedisStreamsMessage] = []
        every = (self.publish_every or timedelta(seconds=1)).total_seconds()
        self._periodic_task = asyncio.create_task(self._publish_now_and_then(every))
        return self

    async def _publish_now_and_then(self, every: float) -> None:
        """Publish again and again; an error leaves the batch for the next time, where the stock loop would end."""
        while True:
            await asyncio.sleep(every)
            try:
                await asyncio.shield(self._publish_current_batch())
            except RedisError as error:
                log.warning("messages could not be published (%s); trying again", type(error).__name__)

    async def _publish_current_batch(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        try:
            try:
                await self._write(batch)
            except OutOfMemoryError:
                await shorten(self._client, self.stream, 0.5)
                await self._write(batch)
        except Exception:
            self._batch = batch + self._batch
            raise

    async def _write(self, batch: list[messaging.RedisStreamsMessage]) -> None:
        by = self.deduplicate_by
        new = await self.cache.without_duplicates(by, batch) if by else batch
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                for message in new:
                    pipe.xadd(self.stream, {"data": message.data, "attributes": orjson.dumps(message.attributes)})
                pipe.memory_usage(self.stream)
                *_, size = await pipe.execute()
        except Exception:
            if by:
                await self.cache.forget_duplicates(by, new)
            raise
        if size and size > SHARE_BYTES:
            await shorten(self._client, self.stream, LEFT_OF_SHARE * SHARE_BYTES / size)


class Consumer(messaging.Consumer):  # type: ignore[misc]
    """Prefect's consumer that keeps messages in Redis until they are acknowledged."""

    _last_trimmed: float | None

    async def run(self, handler: MessageHandler) -> None:
        await super().run(_passing_needed_only(handler) if self.group == PERSISTER else handler)

    async def _trim_stream_if_necessary(self, latest_delivered_id: str | None = None) -> None:
        """Drop messages that all groups have acknowledged. The stock method drops what was only delivered."""
        now = asyncio.get_running_loop().time()
        if self._last_trimmed is None:
            self._last_trimmed = now
        if now - self._last_trimmed > self.trim_every.total_seconds():
            self._last_trimmed = now
            idle = messaging.RedisMessagingConsumerSettings().trim_idle_threshold
            await drop_dealt_with(get_async_redis_client(), self.stream, idle, latest_delivered_id)

    async def _send_to_dlq(self, msg: messaging.RedisStreamsMessage, retry_count: int) -> None:
        """Keep the newest messages that failed again and again, for people to look at."""
        log.error("a message to %s failed %d times and is given up", self.name, retry_count)
        key = f"given-up:{self.stream}"
        async with get_async_redis_client().pipeline(transaction=False) as pipe:
            pipe.lpush(key, orjson.dumps({"group": self.group, "data": msg.data, "attributes": msg.attributes}))
            pipe.ltrim(key, 0, GIVEN_UP_KEPT - 1)
            await pipe.execute()


def _passing_needed_only(handler: MessageHandler) -> MessageHandler:
    """Wrap the handler: it gets only messages that are written, with only the relations that are looked up."""

    async def handle(message: Message) -> None:
        if not str(message.attributes.get("event", "")).startswith(KEPT_OTHERWISE):
            await handler(without_unneeded_relations(message))

    return handle


def without_unneeded_relations(message: Message) -> messaging.RedisStreamsMessage:
    event = orjson.loads(message.data)
    event["related"] = [one for one in event["related"] if one.get("prefect.resource.role") not in NOT_LOOKED_UP]
    return messaging.RedisStreamsMessage(orjson.dumps(event), dict(message.attributes))


async def shorten(client: Redis, stream: str, part: float) -> None:
    """Leave only the newest part of the stream's messages."""
    kept = int(await client.xlen(stream) * part)
    dropped = await client.xtrim(stream, maxlen=kept, approximate=False)
    log.warning("stream %s was full: its oldest %d messages were dropped, %d are left", stream, dropped, kept)


async def drop_dealt_with(client: Redis, stream: str, idle: timedelta, read_up_to: str | None = None) -> None:
    """Drop messages that every group has acknowledged, apart from groups whose readers are all gone."""
    needed = [read_up_to] if read_up_to and read_up_to != "0-0" else []
    try:
        groups = await client.xinfo_groups(stream)
    except ResponseError:  # nobody has written anything yet
        return
    for group in groups:
        readers = await client.xinfo_consumers(stream, group["name"])
        gone = readers and all(reader["idle"] > idle.total_seconds() * 1000 for reader in readers)
        if group["last-delivered-id"] != "0-0" and not gone:
            pending = await client.xpending(stream, group["name"])
            needed.append(pending["min"] or group["last-delivered-id"])
    if needed:
        await client.xtrim(stream, minid=min(needed, key=_place), approximate=False)


def _place(message_id: Any) -> tuple[int, int]:
    """Where a message stands in its stream."""
    moment, _, number = (message_id.decode() if isinstance(message_id, bytes) else message_id).partition("-")
    return int(moment), int(number)
