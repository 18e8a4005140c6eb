"""A receiver in trouble for an hour: all of it arrives once it is well again, and nobody else waits.

Time is scaled by 1800: an hour lasts two seconds, and so do the waits between tries.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.settings import DomainSettings
from tests.support.cluster import TestDatabase
from tests.support.lives import completed, submitted
from tests.support.platform import Domain, running_domain
from tests.support.receiver import Received, Receiver, Reply, running_receiver

EVENTS, SCALE, OUTAGE_SECONDS = 500, 1800.0, 2.0
LONGEST_DELAY = 4.0  # two hours; where a slow machine comes to the later waits, they would only last longer
ALL_DELAYS = DomainSettings.model_fields["callback_delays_seconds"].default
SETTINGS = {
    "development": True,
    "callbacks_enabled": True,
    "callback_networks": ["127.0.0.0/8"],
    "callback_poll_seconds": 0.05,
    "callback_timeout_seconds": 0.3,
    "callback_delays_seconds": tuple(min(max(0.05, delay / SCALE), LONGEST_DELAY) for delay in ALL_DELAYS),
    "pool_size": 6,
}
COPIES = (
    "insert into app.callbacks (callback_id, request_id, endpoint_id, status) select gen_random_uuid(), request_id,"
    " endpoint_id, status from app.callbacks, generate_series(1, %s) where request_id = %s returning 1"
)


def failing(number: int) -> Reply:
    """What a receiver in trouble says, by turns."""
    ways = (Reply(500), Reply(503, {"retry-after": "1"}), Reply(302, {"location": "http://127.0.0.1:1/"}), Reply(404))
    return ways[number % len(ways)]


def troubled(receiver: Receiver, until: float) -> Callable[[Received], Reply]:
    """Errors of every kind and, each tenth time, no answer at all; then health."""

    def reply(_request: Received) -> Reply:
        if time.monotonic() > until:
            return Reply(200)
        count = len(receiver.received)
        return Reply(delay_seconds=60) if count % 10 == 0 else failing(count)

    return reply


@pytest.mark.parametrize("way", ["errors", "closed"])
async def test_after_a_receivers_outage_all_its_callbacks_arrive_and_others_were_not_delayed(
    database: TestDatabase, tmp_path: Path, way: str
) -> None:
    async with (
        running_domain(database, tmp_path, **SETTINGS) as domain,
        running_receiver() as away,
        running_receiver() as well,
    ):
        async with domain.as_("operator") as operator:
            await operator.post("/api/v1/clients/ddh-dev/callback-secret")
        back_at = time.monotonic() + OUTAGE_SECONDS
        away.reply = troubled(away, back_at if way == "errors" else 0)
        address = away.url
        if way == "closed":
            address = away.url.replace("127.0.0.1", "127.0.0.9")  # nobody listens there until it is put right
        lost = await submitted(domain, callback_url=address)
        await completed(domain, lost)
        domain.rows(COPIES, EVENTS - 1, lost)
        mending = asyncio.create_task(put_right(domain, back_at, address, away.url))
        lags = [await lag(domain, well, number) for number in range(20)]
        await mending
        async with asyncio.timeout(120):
            await all_delivered(domain)
        assert max(lags) < 5.0
    arrived = {message.headers["webhook-id"] for message in away.received}
    assert len(arrived) == EVENTS


async def put_right(domain: Domain, at: float, wrong: str, right: str) -> None:
    """Have the address that nobody listens at lead to the receiver, once the outage is over.

    In a thread: the sender may hold the row, and would wait for this loop as this loop for the row.
    """
    await asyncio.sleep(max(0.0, at - time.monotonic()))
    change = "update app.callback_endpoints set url = %s where url = %s returning 1"
    if wrong != right:
        assert await asyncio.to_thread(domain.rows, change, right, wrong)


async def all_delivered(domain: Domain) -> None:
    while True:
        if domain.rows("select count(*) from app.callbacks where state <> 'delivered'") == [(0,)]:
            return
        await asyncio.sleep(0.1)


async def lag(domain: Domain, receiver: Receiver, number: int) -> float:
    """Seconds from a request's end until the healthy receiver knows of it."""
    refs = {"dataset_id": "well", "resource_id": str(number)}
    await completed(domain, await submitted(domain, callback_url=receiver.url, refs=refs))
    ended = time.monotonic()
    await receiver.wait_for(number + 1)
    return time.monotonic() - ended
