"""What everybody may ask is counted before anything is done: by network, at every open door, bodies and all."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from domain.rules.rates import Buckets
from domain.shared.authentication import Authentication
from gateway.edge.rate_limit import SIGN_IN_COST, Rates
from gateway.edge.stream_slots import Streams
from gateway.forwarding.reading_headers import COST, READER
from gateway.state import Gateway
from tests.gateway.world import BODY, call
from tests.support.clock import PATIENCE_SECONDS
from tests.support.cluster import TestCluster
from tests.support.platform import Platform, running_platform

ONE_NETWORK = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", "2001:db8:1:2:3:4:5:6")
ELSEWHERE = "2001:db8:9:9::1"
DOORS = ("/tiles/a/info", "/vector/collections", "/stac", "/console/", "/console/static/vendor/maplibre-gl.js")
OPEN = ("/stac/search", "/console/sign-in")


class Behind(httpx.AsyncBaseTransport):
    """Whatever is behind: it holds its answers until it is told to go on, and says what they cost."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.cost = "1"
        self._news = asyncio.Event()

    async def until_asked(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.asked) < count:
                self._news.clear()
                await self._news.wait()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        self._news.set()
        await self.go_on.wait()
        return httpx.Response(200, headers={COST: self.cost}, text="ok")


@pytest.fixture(scope="module")
async def platform(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """One for all: what is counted is counted anew for each test."""
    with cluster.database() as database:
        async with running_platform(database, tmp_path_factory.mktemp("storage")) as running:
            yield running


@pytest.fixture(autouse=True)
def counting_anew(platform: Platform) -> Iterator[None]:
    with changed(platform, authentication=Authentication()):
        yield


@pytest.fixture
async def behind(platform: Platform) -> AsyncIterator[Behind]:
    """Serving and the console are one and the same here."""
    made = Behind()
    async with (
        httpx.AsyncClient(transport=made, base_url="http://serving") as serving,
        httpx.AsyncClient(transport=made, base_url="http://domain") as console,
    ):
        with changed(platform, serving=serving, console=console):
            yield made


def state_of(platform: Platform) -> Gateway:
    found: Gateway = platform.gateway.app.state.gateway  # type: ignore[attr-defined]
    return found


@contextmanager
def changed(platform: Platform, **changes: Any) -> Iterator[None]:
    before = state_of(platform)
    platform.gateway.app.state.gateway = replace(before, **changes)  # type: ignore[attr-defined]
    yield
    platform.gateway.app.state.gateway = before  # type: ignore[attr-defined]


def frozen(burst: float) -> Buckets:
    return Buckets(1, burst, clock=lambda: 0.0)


async def ask(platform: Platform, path: str, address: str, method: str = "GET", **more: Any) -> httpx.Response:
    app = platform.gateway.app  # type: ignore[attr-defined]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        return await client.request(method, path, **more)


@pytest.mark.parametrize("path", DOORS)
async def test_addresses_of_one_network_share_its_places(platform: Platform, behind: Behind, path: str) -> None:
    behind.go_on.clear()
    with changed(platform, streams=Streams(40, 10), visits=Streams(40, 10)):
        held = [asyncio.create_task(ask(platform, path, ONE_NETWORK[number % 3])) for number in range(10)]
        await behind.until_asked(10)
        for address in ONE_NETWORK:
            refused = await ask(platform, path, address)
            assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
        other = asyncio.create_task(ask(platform, path, ELSEWHERE))
        await behind.until_asked(11)
        behind.go_on.set()
        assert {(await task).status_code for task in [*held, other]} == {200}


@pytest.mark.parametrize("path", DOORS)
async def test_every_anonymous_route_is_rate_limited_by_network(platform: Platform, behind: Behind, path: str) -> None:
    with changed(platform, readers=frozen(5), visitors=frozen(5)):
        answers = [(await ask(platform, path, ONE_NETWORK[number % 3])).status_code for number in range(7)]
        assert answers == [200] * 5 + [429] * 2
        assert (await ask(platform, path, ELSEWHERE)).status_code == 200
    assert len(behind.asked) == 6


@pytest.mark.parametrize("path", ["/console/sign-in/provider", "/console/sign-in", "/console/signed-in"])
async def test_starting_a_sign_in_costs_more_than_a_page(platform: Platform, behind: Behind, path: str) -> None:
    with changed(platform, visitors=frozen(2.5 * SIGN_IN_COST)):
        assert [(await ask(platform, path, ONE_NETWORK[0])).status_code for _ in range(5)] == [200] * 3 + [429] * 2
        refused = await ask(platform, path, ONE_NETWORK[1])
        assert (refused.json()["code"], refused.headers["retry-after"]) == ("too-many-calls", "14")
        assert (await ask(platform, path, ELSEWHERE)).status_code == 200


async def test_reader_is_charged_the_cost_that_serving_reports(platform: Platform, behind: Behind) -> None:
    """One that costs 16 leaves a debt: whoever asks for it waits, and others do not."""
    behind.cost = "16.00"
    with changed(platform, readers=frozen(5)):
        assert (await ask(platform, "/tiles/a/preview", ONE_NETWORK[0])).status_code == 200
        refused = await ask(platform, "/tiles/a/preview", ONE_NETWORK[1])
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "12")
        behind.cost = "1.00"
        assert [(await ask(platform, "/tiles/a/0", ELSEWHERE)).status_code for _ in range(5)] == [200] * 5


async def test_internal_reader_and_cost_headers_do_not_cross_the_gateway(platform: Platform, behind: Behind) -> None:
    """Nobody says by themselves who they are, and nobody is told."""
    answer = await ask(platform, "/tiles/a", ONE_NETWORK[0], headers={READER: "somebody", COST: "1"})
    assert COST not in answer.headers
    [seen] = behind.asked
    assert (seen.headers[READER], COST in seen.headers) == ("2001:db8:1:2::/64", False)


class Endless(httpx.AsyncByteStream):
    """A body without end; notes how much of it was read."""

    def __init__(self) -> None:
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.read < 100_000_000:
            self.read += 100_000
            yield b" " * 100_000


BODY_OF = {"POST": "/api/platform/submit", "PUT": "/api/proxy/nobody/x", "DELETE": "/api/assets/1"}


@pytest.mark.parametrize("method", BODY_OF)
@pytest.mark.parametrize("headers", [{}, {"x-api-key": "guessed"}, {"authorization": "Bearer guessed"}])
async def test_no_body_is_read_without_a_good_credential(
    platform: Platform, method: str, headers: dict[str, str]
) -> None:
    """ASGI's own transport reads on: what was taken in is told by the room."""
    body = Endless()
    answer = await ask(platform, BODY_OF[method], ELSEWHERE, method, content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert body.read <= 100_000


async def test_wrong_credentials_that_bring_a_body_are_guesses_too(platform: Platform) -> None:
    wrong = [
        (await ask(platform, "/api/platform/submit", ELSEWHERE, "POST", headers={"x-api-key": f"no-{number}"}, json={}))
        for number in range(52)
    ]
    assert [answer.status_code for answer in wrong] == [401] * 50 + [429] * 2


async def test_caller_over_its_rate_is_refused_before_its_body_is_read(platform: Platform) -> None:
    with changed(platform, rates=Rates(frozen(1), frozen(9))):
        answers = [await call(platform, "ddh-dev", "POST", "/api/platform/submit", json={}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [422, 429]
        body = Endless()
        assert (await call(platform, "ddh-dev", "POST", "/api/platform/submit", content=body)).status_code == 429
        assert body.read <= 100_000


async def test_body_with_a_good_credential_is_read(platform: Platform) -> None:
    """The control, twice: once when the credential is new here, and once when it is known."""
    for number in range(2):
        body = BODY | {"resource_id": f"dem-{number}"}
        assert (await call(platform, "ddh-dev", "POST", "/api/platform/submit", json=body)).status_code == 202
    assert state_of(platform).authentication.knows("secret-ddh-dev", "127.0.0.1")


@pytest.mark.parametrize("path", OPEN)
async def test_anonymous_routes_read_little_of_any_body(platform: Platform, behind: Behind, path: str) -> None:
    body = Endless()
    answer = await ask(platform, path, ELSEWHERE, "POST", content=body, headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert body.read <= 1_100_000
    assert behind.asked == []
