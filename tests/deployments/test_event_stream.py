"""Prefect's messages in a real Redis: a stream has an end, a full Redis takes them all the same, and none that
somebody still needs is dropped while there is room."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
import yaml
from prefect.server.utilities.messaging import BrokerModule, Message, StopConsumer
from prefect_redis import messaging
from prefect_redis.client import clear_cached_clients, get_async_redis_client
from redis.exceptions import OutOfMemoryError

from deployments import event_stream
from deployments.stack.prefect_events import EVENT_SETTINGS
from tests.support.prefect_server import REPOSITORY
from tests.support.redis_server import running_redis

TOPIC = "events"
RELATED = [
    {"prefect.resource.role": role, "prefect.resource.id": f"prefect.{role}.1"}
    for role in ("flow", "deployment", "work-pool", "work-queue", "tag", "tag")
]
BODY = orjson.dumps({"related": RELATED, "payload": "x" * 600})


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def client(address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Prefect's own client of it, which publishers and consumers share."""
    monkeypatch.setenv("PREFECT_REDIS_MESSAGING_URL", address)
    await clear_cached_clients()
    made: Any = get_async_redis_client()
    await made.config_set("maxmemory", 0)
    await made.flushall()
    yield made
    await made.aclose()
    await clear_cached_clients()


async def publish(broker: Any, first: int, count: int, event: str = "prefect.flow-run.Running") -> None:
    async with broker.Publisher(TOPIC, messaging.Cache(), deduplicate_by="id") as publisher:
        for number in range(first, first + count):
            await publisher.publish_data(BODY, {"id": str(number), "event": event})


async def numbers(client: Any) -> list[int]:
    return [int(yaml.safe_load(fields["attributes"])["id"]) for _, fields in await client.xrange(TOPIC)]


def test_event_stream_module_is_a_prefect_broker() -> None:
    assert isinstance(event_stream, BrokerModule)


def test_containers_have_the_settings_of_the_embedded_stack() -> None:
    compose = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
    given = compose["services"]["prefect"]["environment"]
    assert {name: given.get(name) for name in EVENT_SETTINGS} == EVENT_SETTINGS
    assert {"--maxmemory", "--maxmemory-policy"} <= set(compose["services"]["redis"]["command"])


async def test_unread_stream_stays_within_its_share_and_keeps_the_newest(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SHARE_BYTES", 300_000)
    await publish(event_stream, 0, 1_000)
    assert await client.memory_usage(TOPIC) <= 300_000 + 10 * len(BODY)
    kept = await numbers(client)
    assert kept == list(range(1_000 - len(kept), 1_000))
    assert len(kept) > 100
    await client.delete(TOPIC)
    await publish(messaging, 1_000, 1_000)
    assert await client.memory_usage(TOPIC) > 1_000_000  # without an end it holds all of them


async def test_full_redis_accepts_messages(client: Any) -> None:
    """Else Prefect could change no flow run's state any more."""
    await publish(event_stream, 0, 500)
    await client.config_set("maxmemory", (await client.info("memory"))["used_memory"])
    with pytest.raises(OutOfMemoryError):
        await publish(messaging, 500, 5)
    await publish(event_stream, 600, 5)
    assert (await numbers(client))[-5:] == [600, 601, 602, 603, 604]


async def test_message_refused_by_a_full_redis_is_written_once_there_is_room(client: Any) -> None:
    publisher: Any = event_stream.Publisher(TOPIC, messaging.Cache(), deduplicate_by="id", batch_size=2)
    async with publisher:
        await client.config_set("maxmemory", 1)
        await publisher.publish_data(BODY, {"id": "1"})
        with pytest.raises(OutOfMemoryError):
            await publisher.publish_data(BODY, {"id": "2"})
        await client.config_set("maxmemory", 0)
    assert await numbers(client) == [1, 2]


async def test_message_handed_to_a_reader_is_kept_until_it_is_acknowledged(client: Any) -> None:
    await publish(event_stream, 0, 10)
    for group in ("one", "other"):
        await client.xgroup_create(TOPIC, group, id="0")
    [[_, handed]] = await client.xreadgroup("one", "died", {TOPIC: ">"}, count=10)
    [[_, read]] = await client.xreadgroup("other", "lives", {TOPIC: ">"}, count=10)
    await client.xack(TOPIC, "other", *[message_id for message_id, _ in read])
    idle = messaging.RedisMessagingConsumerSettings().trim_idle_threshold
    await client.xack(TOPIC, "one", *[message_id for message_id, _ in handed[:4]])
    await event_stream.drop_dealt_with(client, TOPIC, idle)
    assert await numbers(client) == [4, 5, 6, 7, 8, 9]
    await messaging._trim_stream_to_lowest_delivered_id(TOPIC)
    assert await numbers(client) == [9]  # what died with its reader would be lost


async def test_persister_receives_only_events_that_are_looked_up(
    client: Any,
) -> None:
    for number, event in enumerate(("prefect.task-run.Completed", "prefect.flow-run.heartbeat", "last")):
        await publish(event_stream, number, 1, event)
    assert await handed(event_stream.PERSISTER) == [("last", ["flow", "deployment", "work-pool"])]
    everything = [one["prefect.resource.role"] for one in RELATED]
    assert await handed("task-run-recorder") == [
        (event, everything) for event in ("prefect.task-run.Completed", "prefect.flow-run.heartbeat", "last")
    ]


async def handed(group: str) -> list[tuple[str, list[str]]]:
    """What readers of this group are given, up to the last, and which roles each message relates to."""
    seen: list[tuple[str, list[str]]] = []

    async def handle(message: Message) -> None:
        related = orjson.loads(message.data)["related"]
        seen.append((message.attributes["event"], [one["prefect.resource.role"] for one in related]))
        if message.attributes["event"] == "last":
            raise StopConsumer(ack=True)

    await asyncio.wait_for(event_stream.Consumer(TOPIC, name="reader", group=group).run(handle), 30)
    return seen


async def test_only_the_newest_failed_messages_are_kept(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "GIVEN_UP_KEPT", 3)
    consumer = event_stream.Consumer(TOPIC, group="group")
    for number in range(5):
        await consumer._send_to_dlq(messaging.RedisStreamsMessage(str(number), {}), 4)
    assert [yaml.safe_load(kept)["data"] for kept in await client.lrange(f"given-up:{TOPIC}", 0, -1)] == ["4", "3", "2"]
    assert await client.keys("dlq*") == []
