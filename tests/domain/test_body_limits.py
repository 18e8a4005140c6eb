"""The domain reads bodies of those who show a good credential, and each no further than its route needs."""

from collections.abc import AsyncIterator
from itertools import product
from uuid import uuid4

import httpx

from tests.support.platform import Domain

SUBMIT, COMMIT, SIGN_IN = "/api/v1/submit", f"/api/v1/runs/{uuid4()}/commit", "/console/sign-in"


class Endless(httpx.AsyncByteStream):
    """A body without end; notes how much of it was read."""

    def __init__(self) -> None:
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.read < 1_000_000_000:
            self.read += 500_000
            yield b" " * 500_000


async def sent(domain: Domain, client_id: str | None, path: str, body: Endless) -> httpx.Response:
    headers = {"Authorization": f"Bearer secret-{client_id}"} if client_id else {}
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain", headers=headers) as client:
        return await client.post(path, content=body)


async def test_no_body_is_read_without_a_good_credential(domain: Domain) -> None:
    for path, client_id in product((SUBMIT, COMMIT, "/api/v1/nowhere"), (None, "nobody")):
        body = Endless()
        answer = await sent(domain, client_id, path, body)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
        assert body.read <= 500_000


async def test_body_beyond_the_limit_of_its_route_is_refused(domain: Domain) -> None:
    for client_id, path, most in (
        ("gateway", SUBMIT, 8_000_000),
        ("worker", COMMIT, 64_000_000),
        (None, SIGN_IN, 64_000),
    ):
        body = Endless()
        answer = await sent(domain, client_id, path, body)
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large"), path
        assert f"{most:,} bytes" in answer.json()["detail"]
        assert most <= body.read <= most + 1_000_000


async def test_a_credential_is_looked_up_before_its_first_body_and_with_each_call(domain: Domain) -> None:
    """Whoever was known may send a body once more; what it asks for is refused all the same."""
    async with domain.as_("worker") as worker:
        unknown_run = {"attempt_token": "none"}
        assert (await worker.post(f"/api/v1/runs/{uuid4()}/heartbeat", json=unknown_run)).status_code == 200
        assert domain.service.authentication.knows("secret-worker", "127.0.0.1")
        domain.rows("update app.clients set is_active = false where client_id = 'worker' returning 1")
        for _ in range(2):
            answer = await worker.post(f"/api/v1/runs/{uuid4()}/heartbeat", json=unknown_run)
            assert answer.status_code == 401
        assert not domain.service.authentication.knows("secret-worker", "127.0.0.1")
