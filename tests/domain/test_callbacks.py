"""Telling partners: signed, at least once, by a schedule, until they say stop; one slow receiver delays no other."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from standardwebhooks.webhooks import Webhook

from domain.app import create_app
from domain.repositories.callbacks import CLAIM, Callbacks
from domain.rules import callbacks as rules
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.lives import completed, failed, submitted
from tests.support.platform import Domain, domain_settings, running_domain
from tests.support.receiver import Received, Receiver, Reply, running_receiver

GIVEN_UP_SECONDS = 10.0  # a receiver on a busy machine
QUICK = {
    "development": True,
    "callbacks_enabled": True,
    "callback_networks": ["127.0.0.0/8"],
    "callback_poll_seconds": 0.05,
    "callback_timeout_seconds": GIVEN_UP_SECONDS,
    "callback_delays_seconds": (0.05,) * 9,
    "pool_size": 4,
}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(database, tmp_path, **QUICK) as running:
        yield running


async def secret_of(domain: Domain, client_id: str = "ddh-dev") -> str:
    async with domain.as_("operator") as operator:
        answer = await operator.post(f"/api/v1/clients/{client_id}/callback-secret")
    assert answer.status_code == 201, answer.text
    secret: str = answer.json()["callback_secret"]
    return secret


async def state_of(domain: Domain, state: str, seconds: float = 60.0) -> dict[str, object]:
    """The only callback, once it is in this state."""
    async with asyncio.timeout(seconds), domain.as_("operator") as operator:
        while True:
            [summary] = (await operator.get("/api/v1/callbacks")).json()["callbacks"]
            if summary["state"] == state:
                detail: dict[str, object] = (await operator.get(f"/api/v1/callbacks/{summary['callback_id']}")).json()
                return detail
            await asyncio.sleep(0.02)


async def test_callback_of_a_completed_request_is_signed_without_run_ids(domain: Domain, receiver: Receiver) -> None:
    secret = await secret_of(domain)
    request_id = await submitted(domain, callback_url=receiver.url)
    await completed(domain, request_id)
    await receiver.wait_for(1)
    [message] = receiver.received
    told = Webhook(secret).verify(message.body, message.headers)
    assert told == {
        "request_id": request_id,
        "status": "completed",
        "result_url": f"http://cairn.test/api/platform/status/{request_id}",
    }
    detail = await state_of(domain, "delivered")
    assert detail["webhook_id"] == message.headers["webhook-id"]
    assert [entry["status_code"] for entry in detail["deliveries"]] == [204]  # type: ignore[attr-defined]


async def test_callback_of_a_failed_request_carries_the_problem_and_is_retried_until_taken(
    domain: Domain, receiver: Receiver
) -> None:
    secret = await secret_of(domain)
    answers = iter(
        [Reply(500, body=b"x" * 5000), Reply(302, {"location": receiver.url}), Reply(429, {"retry-after": "1"})]
    )
    receiver.reply = lambda _request: next(answers, Reply(200))
    request_id = await submitted(domain, callback_url=receiver.url)
    await failed(domain, request_id)
    detail = await state_of(domain, "delivered")
    assert [entry["status_code"] for entry in detail["deliveries"]] == [500, 302, 429, 200]  # type: ignore[attr-defined]
    assert len({message.headers["webhook-id"] for message in receiver.received}) == 1
    times = [int(message.headers["webhook-timestamp"]) for message in receiver.received]
    assert times[3] - times[2] >= 1  # Retry-After
    for message in receiver.received:
        told = Webhook(secret).verify(message.body, message.headers)
        assert (told["status"], told["problem"]["detail"]) == ("failed", "Band 1 is missing.")
    assert max(len(text or "") for (text,) in domain.rows("select excerpt from app.callback_deliveries")) <= 200


async def test_callback_of_a_superseded_request_says_cancelled(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    await submitted(domain, callback_url=receiver.url)
    await submitted(domain, source="uploads/better.tif")
    await receiver.wait_for(1)
    assert json.loads(receiver.received[0].body)["status"] == "cancelled"


async def test_callback_waits_for_a_replay_after_its_last_try(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    receiver.reply = lambda _request: Reply(500)
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    detail = await state_of(domain, "failed")
    assert len(receiver.received) == len(detail["deliveries"]) == 10  # type: ignore[arg-type]
    receiver.reply = lambda _request: Reply(200)
    async with domain.as_("operator") as operator:
        replayed = await operator.post(f"/api/v1/callbacks/{detail['callback_id']}/replay")
    assert replayed.status_code == 202
    await state_of(domain, "delivered")
    assert len({message.headers["webhook-id"] for message in receiver.received}) == 1
    assert domain.rows("select actor from app.events where kind = 'callback.replayed'") == [("operator",)]


async def test_answer_410_disables_its_endpoint_and_holds_later_callbacks(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    receiver.reply = lambda _request: Reply(410)
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    detail = await state_of(domain, "disabled")
    assert detail["endpoint_disabled_at"] is not None
    refs = {"dataset_id": "elevation", "resource_id": "other"}
    await completed(domain, await submitted(domain, callback_url=receiver.url, refs=refs))
    await asyncio.sleep(0.2)
    assert len(receiver.received) == 1
    assert domain.rows("select distinct state from app.callbacks") == [("disabled",)]
    receiver.reply = lambda _request: Reply(200)
    async with domain.as_("operator") as operator:
        await operator.post(f"/api/v1/callbacks/{detail['callback_id']}/replay")
        await receiver.wait_for(2)
        again = await operator.post(f"/api/v1/callbacks/{detail['callback_id']}/replay")
    assert again.status_code in {202, 409}  # delivered already, or still on its way


async def test_hostile_answer_is_a_failed_try_like_others(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    beyond = {"retry-after": "Mon, 01 Jan 2020 00:00:00 +99999999999999999"}
    receiver.reply = lambda _request: Reply(503, beyond)
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    detail = await state_of(domain, "failed")
    assert [entry["status_code"] for entry in detail["deliveries"]] == [503] * 10  # type: ignore[attr-defined]


async def test_callback_whose_judgement_raises_fails_alone(
    domain: Domain, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await secret_of(domain)
    judged = rules.retry_after_seconds

    def broken(header: str | None, now: datetime) -> float | None:
        if header == "poison":
            raise RecursionError
        return judged(header, now)

    monkeypatch.setattr(rules, "retry_after_seconds", broken)
    receiver.reply = lambda _request: Reply(503, {"retry-after": "poison"})
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    detail = await state_of(domain, "failed")
    told = {entry["error"] for entry in detail["deliveries"]}  # type: ignore[attr-defined]
    assert told == {"not tried to the end: RecursionError"}
    async with running_receiver() as other:
        refs = {"dataset_id": "elevation", "resource_id": "other"}
        await completed(domain, await submitted(domain, callback_url=other.url, refs=refs))
        await other.wait_for(1)


async def test_callback_under_way_when_its_endpoint_is_disabled_waits_for_a_replay(
    domain: Domain, receiver: Receiver
) -> None:
    await secret_of(domain)
    first = await submitted(domain, callback_url=receiver.url)
    second = await submitted(domain, callback_url=receiver.url, refs={"dataset_id": "a", "resource_id": "b"})

    both, gone = asyncio.Event(), asyncio.Event()

    def reply(request: Received) -> Reply:
        if len(receiver.received) == 2:
            both.set()
        is_first = first.encode() in request.body
        return Reply(410 if is_first else 500, delay_seconds=60, once=both if is_first else gone)

    receiver.reply = reply
    await completed(domain, first)
    await completed(domain, second)
    await eventually(lambda: domain.rows("select 1 from app.callbacks where state = 'disabled'"))
    gone.set()
    await eventually(lambda: domain.rows("select distinct state from app.callbacks") == [("disabled",)])
    assert len(receiver.received) == 2, "both were under way"
    assert domain.rows("select distinct state from app.callbacks") == [("disabled",)]
    receiver.reply = lambda _request: Reply(200)
    await replayed(domain, second)
    await receiver.wait_for(3)


async def test_callback_claimed_by_a_dead_sender_at_a_disabled_endpoint_can_be_replayed(
    domain: Domain, receiver: Receiver
) -> None:
    await secret_of(domain)
    receiver.reply = lambda _request: Reply(410)
    request_id = await submitted(domain, callback_url=receiver.url)
    await completed(domain, request_id)
    await state_of(domain, "disabled")
    domain.rows("update app.callbacks set state = 'sending', claim = claim + 1, next_at = now() returning 1")
    receiver.reply = lambda _request: Reply(200)
    await replayed(domain, request_id)
    await state_of(domain, "delivered")


async def replayed(domain: Domain, request_id: str) -> None:
    [(callback_id,)] = domain.rows("select callback_id from app.callbacks where request_id = %s", request_id)
    async with domain.as_("operator") as operator:
        answer = await operator.post(f"/api/v1/callbacks/{callback_id}/replay")
    assert answer.status_code == 202, answer.text


async def test_a_slow_receiver_delays_no_other(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    async with running_receiver() as slow:
        slow.reply = lambda _request: Reply(delay_seconds=30)
        waiting = await submitted(domain, callback_url=slow.url)
        good = await submitted(domain, callback_url=receiver.url, refs={"dataset_id": "a", "resource_id": "b"})
        await completed(domain, waiting)
        await completed(domain, good)
        # Two hundred more for the slow one, longer due than what the good one gets from now on.
        domain.rows(
            "insert into app.callbacks (callback_id, request_id, endpoint_id, status, next_at) "
            "select gen_random_uuid(), request_id, endpoint_id, status, now() - interval '1 hour' "
            "from app.callbacks, generate_series(1, 200) where request_id = %s returning 1",
            waiting,
        )
        await slow.wait_for(2)
        begun = time.monotonic()
        domain.rows(
            "insert into app.callbacks (callback_id, request_id, endpoint_id, status) "
            "select gen_random_uuid(), request_id, endpoint_id, status "
            "from app.callbacks, generate_series(1, 50) where request_id = %s returning 1",
            good,
        )
        await receiver.wait_for(51)
        assert time.monotonic() - begun < GIVEN_UP_SECONDS
        assert slow.connections <= 12


async def test_two_instances_send_each_callback_once(
    database: TestDatabase, tmp_path: Path, receiver: Receiver
) -> None:
    async with running_domain(database, tmp_path, **QUICK) as domain:
        await secret_of(domain)
        request_id = await submitted(domain, callback_url=receiver.url)
        await completed(domain, request_id)
        second = create_app(domain_settings(database, tmp_path, **QUICK))
        async with second.router.lifespan_context(second):
            domain.rows(
                "insert into app.callbacks (callback_id, request_id, endpoint_id, status) "
                "select gen_random_uuid(), request_id, endpoint_id, status "
                "from app.callbacks, generate_series(1, 99) where request_id = %s returning 1",
                request_id,
            )
            await receiver.wait_for(100)
            await asyncio.sleep(0.3)
    sent = [message.headers["webhook-id"] for message in receiver.received]
    assert len(sent) == len(set(sent)) == 100


async def test_callback_claimed_by_a_dead_sender_is_sent_by_another(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    receiver.reply = lambda _request: Reply(500)
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    await receiver.wait_for(1)
    receiver.reply = lambda _request: Reply(200)
    # As its sender's death leaves it: claimed, its lease run out.
    domain.rows("update app.callbacks set state = 'sending', claim = claim + 1, next_at = now() returning 1")
    await state_of(domain, "delivered")


async def test_callbacks_are_listed_page_by_page(domain: Domain, receiver: Receiver) -> None:
    await secret_of(domain)
    request_id = await submitted(domain, callback_url=receiver.url)
    await completed(domain, request_id)
    await state_of(domain, "delivered")
    domain.rows(
        "insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, created_at) select "
        "gen_random_uuid(), request_id, endpoint_id, status, 'failed', now() - interval '1 minute' * (n / 3) "
        "from app.callbacks, generate_series(1, 24) n returning 1"
    )
    async with domain.as_("operator") as operator:
        seen, token = [], None
        while True:
            query = {"limit": "10", "request_id": request_id} | ({"after": token} if token else {})
            page = (await operator.get("/api/v1/callbacks", params=query)).json()
            seen += [entry["callback_id"] for entry in page["callbacks"]]
            token = page["next"]
            if token is None:
                break
        assert len(seen) == len(set(seen)) == 25
        assert len((await operator.get("/api/v1/callbacks", params={"state": "failed"})).json()["callbacks"]) == 24
        bad = await operator.get("/api/v1/callbacks", params={"after": "bm90IG91cnM"})
        assert (bad.status_code, bad.json()["code"]) == (422, "invalid-page")
        missing = await operator.get(f"/api/v1/callbacks/{uuid4()}")
        assert missing.status_code == 404


async def test_looking_for_due_callbacks_reads_only_endpoints_that_have_some(
    database: TestDatabase, tmp_path: Path
) -> None:
    """Partners often name one address a request. Told by the pages that the look reads, which no clock can blur."""
    async with running_domain(database, tmp_path) as domain:
        request_id = await submitted(domain)
        domain.rows(
            "insert into app.callback_endpoints (client_id, url) select 'ddh-dev', 'https://a.test/' || n"
            " from generate_series(1, 3000) n returning 1"
        )
        domain.rows(
            "insert into app.callbacks (callback_id, request_id, endpoint_id, status, state) select gen_random_uuid(),"
            " %s, endpoint_id, 'completed', case when endpoint_id %% 1000 = 0 then 'ready' else 'delivered' end"
            " from app.callback_endpoints returning 1", request_id,
        )  # fmt: skip
        with psycopg.connect(database.url(), autocommit=True) as administrator:
            administrator.execute("vacuum analyze app.callbacks, app.callback_endpoints")
        assert pages_of_a_claim(domain) < 300
        async with domain.service.database.transaction() as session:
            due = await Callbacks(session).claim(10, 4, 60)
        assert len({each.endpoint_id for each in due}) == 3
        async with domain.service.database.transaction() as session:
            assert await Callbacks(session).claim(10, 4, 60) == [], "all are under a lease"


def pages_of_a_claim(domain: Domain) -> int:
    """How many pages one look reads. What it claims is given back."""
    query = CLAIM.text
    for name, value in {":lease": "60", ":each": "4", ":batch": "10"}.items():
        query = query.replace(name, value)
    with psycopg.connect(domain.database.url()) as connection:
        [[plan]] = connection.execute(f"explain (analyze, buffers, format json) {query}".encode()).fetchall()
        connection.rollback()
    read = plan[0]["Plan"]
    return int(read["Shared Hit Blocks"] + read["Shared Read Blocks"])
