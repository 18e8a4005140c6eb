"""Who gets in at partners' door: keys and tokens as the domain judges them, and nobody who guesses."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import sample
from statistics import median
from uuid import uuid4

import httpx
import pytest

from gateway.documents import Audience
from tests.gateway.operations import code_of, operations
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.issuer import EC, bad_tokens, running_issuer, token, trusting_settings
from tests.support.platform import Platform, running_platform
from tests.support.ranks import p_of_equality
from tests.support.receiver import Receiver

MADE_UP = {"request_id": str(uuid4()), "asset_id": "0" * 32, "ordinal": "0", "job_id": str(uuid4())}
NOTHING = "/api/platform/status/00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def issuer() -> AsyncIterator[Receiver]:
    async with running_issuer() as running:
        yield running


@pytest.fixture
async def trusting(database: TestDatabase, tmp_path: Path, issuer: Receiver) -> AsyncIterator[Platform]:
    async with running_platform(database, tmp_path, **trusting_settings(issuer)) as running:
        yield running


async def knock(platform: Platform, secret: str, address: str = "10.0.0.1", path: str = NOTHING) -> httpx.Response:
    """404 is the answer to whoever is let in: there is no such request."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        return await client.get(path, headers={"Authorization": f"Bearer {secret}"})


async def test_good_token_is_accepted_like_its_clients_key(trusting: Platform) -> None:
    for secret in (token(client_id="ddh-dev"), token(EC, "ES256", "ec", client_id="reviewer"), "secret-ddh-dev"):
        assert (await knock(trusting, secret)).status_code == 404
    revoked = "update app.clients set is_active = false where client_id = 'ddh-dev' returning 1"
    trusting.domain.rows(revoked)
    assert (await knock(trusting, token(client_id="ddh-dev"))).status_code == 401


async def test_a_partner_submits_and_a_reviewer_decides_by_token(trusting: Platform) -> None:
    body = {"dataset_id": "a", "resource_id": "b", "version_id": "1", "data_type": "raster", "operation": "ingest"}
    async with httpx.AsyncClient(transport=trusting.gateway, base_url="http://gateway") as client:
        partner = {"Authorization": f"Bearer {token(client_id='ddh-dev')}"}
        accepted = await client.post("/api/platform/submit", json=body | {"source": "u/a.tif"}, headers=partner)
        decision = {"request_id": accepted.json()["request_id"], "clearance_level": "ouo"}
        reviewer = {"Authorization": f"Bearer {token(client_id='reviewer')}"}
        decided = await client.post("/api/platform/approve", json=decision, headers=reviewer)
    assert accepted.status_code == 202
    assert decided.json()["code"] == "not-reviewable"  # the domain let the reviewer in, and judged


async def test_every_bad_token_is_turned_away(trusting: Platform) -> None:
    answers = {name: (await knock(trusting, secret)).status_code for name, secret in bad_tokens().items()}
    assert answers == dict.fromkeys(answers, 401)
    assert (await knock(trusting, token(client_id="ddh-dev"))).status_code == 404  # the control


FORGERIES = ("none", "hmac with the public key", "another audience", "expired", "not yet", "unknown key id")


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_token_opens_no_route(trusting: Platform, forgery: str) -> None:
    """Each of the six, at every route of partners and operators; a good token beside it gets past the door."""
    listed = [one for one in operations(trusting) if one.audience is not Audience.PROBE]
    assert len(listed) >= 18
    for number, operation in enumerate(listed):
        arguments = operation.call(MADE_UP)
        answers = []
        for secret in (bad_tokens()[forgery], token(client_id="ddh-dev")):
            app = trusting.gateway.app  # type: ignore[attr-defined]
            transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(f"10.1.0.{number}", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                headers = arguments["headers"] | {"Authorization": f"Bearer {secret}"}
                answers.append(await client.request(**arguments | {"headers": headers}))
        assert (answers[0].status_code, code_of(answers[0])) == (401, "unauthenticated"), str(operation)
        assert answers[1].status_code != 401, str(operation)


async def test_every_token_is_refused_without_an_issuer(platform: Platform) -> None:
    assert (await knock(platform, token(client_id="ddh-dev"))).status_code == 401


@pytest.mark.parametrize("path", [NOTHING, "/tiles/some-asset/info"])
async def test_guesser_waits_while_known_clients_at_its_address_go_on(platform: Platform, path: str) -> None:
    served = path == NOTHING
    assert (await knock(platform, "secret-ddh-dev")).status_code == 404
    answers = [await knock(platform, f"cairn_wrong{number}") for number in range(200)]
    assert [answer.status_code for answer in answers] == [401] * 50 + [429] * 150
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert (await knock(platform, "cairn_wrong", path=path)).json()["code"] == "too-many-wrong-credentials"
    assert (await knock(platform, "secret-ddh-dev")).status_code == 404
    assert (await knock(platform, "secret-reviewer")).status_code == 429  # new here: waits with the guesser
    assert (await knock(platform, "secret-reviewer", "10.0.0.2")).status_code == 404
    assert served or (await knock(platform, "secret-ddh-dev", path=path)).status_code == 503  # passed on: none is there


async def test_a_revoked_key_is_refused_at_once(platform: Platform) -> None:
    assert (await knock(platform, "secret-ddh-dev")).status_code == 404
    async with platform.domain.as_("operator") as operator:
        assert (await operator.post("/api/v1/clients/ddh-dev/revoke")).is_success
    assert (await knock(platform, "secret-ddh-dev")).status_code == 401


async def test_last_use_of_a_client_at_the_gateway_is_recorded_by_the_domain(
    database: TestDatabase, tmp_path: Path
) -> None:
    used = "select client_id from app.clients where last_used_at is not null"
    async with running_platform(database, tmp_path, last_used_seconds=0.1) as platform:
        assert (await knock(platform, "secret-arcgis-dew")).status_code == 401
        assert (await knock(platform, "secret-ddh-dev")).status_code == 404
        await eventually(lambda: platform.domain.rows(used))
        assert platform.domain.rows(used) == [("ddh-dev",)]


async def test_duration_of_a_refusal_reveals_nothing_of_the_key(platform: Platform) -> None:
    """Alike for a key that nobody has, one that is a letter off, one that was withdrawn; a right key takes longer."""
    platform.domain.rows("update app.clients set is_active = false where client_id = 'arcgis-dev' returning 1")
    kinds = {"near": "secret-ddh-dew", "withdrawn": "secret-arcgis-dev", "right": "secret-ddh-dev"}
    splits = {kind: [await _split(platform, key) for _ in range(3)] for kind, key in kinds.items()}
    assert max(splits["near"]) > 0.01
    assert max(splits["withdrawn"]) > 0.01
    assert median(splits["right"]) < 0.01, "a difference that is there is not seen"


async def _split(platform: Platform, key: str) -> float:
    """The p of this key's answers taking as long as those of unknown ones, in mixed order and from fresh addresses."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for is_this in sample([True, False], 200, counts=[100, 100]):
        secret, address = key if is_this else f"secret-{uuid4().hex[:7]}", str(uuid4())
        began = time.perf_counter()
        await knock(platform, secret, address)
        seconds[is_this].append(time.perf_counter() - began)
    return p_of_equality(seconds[True], seconds[False])
