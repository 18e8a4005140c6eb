"""Signing in at a provider: with a fake one in the browser, and with one that answers whatever a test tells it."""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from playwright.async_api import Browser, expect

from domain.console.oidc import Provider, ProviderUnavailable, SignInRefused
from domain.console.pending import PENDING_SECONDS, PendingSignIn, PendingSignIns
from domain.rules.provider import Vouched
from tests.support.browsing import keep, visiting
from tests.support.cluster import TestCluster, TestDatabase, open_folder
from tests.support.console import Assembly, running_console
from tests.support.issuer import FOREIGN, published, token
from tests.support.platform import another_domain, running_domain
from tests.support.provider import running_provider
from tests.support.receiver import Received, Receiver, Reply, running_receiver

BACK = "http://cairn.test/console/signed-in"


async def test_people_sign_in_at_their_provider(cluster: TestCluster, browser: Browser, artifacts: Path) -> None:
    with running_provider() as issuer:
        settings = {
            "oidc_issuer": issuer,
            "oidc_client_id": "cairn",
            "oidc_client_secret": "known",
        }
        with cluster.database() as database, open_folder("oidc") as storage:
            async with running_console(database, storage, **settings) as assembly:
                await bind(assembly, "operator", "op-4711")
                async with visiting(browser, assembly, None) as visit:
                    page = visit.page
                    await visit.go("/console/callbacks")
                    await page.get_by_role("link", name="Sign in with your organisation").click()
                    await page.locator("input[name=sub]").first.fill("op-4711")
                    await keep(visit, artifacts, "provider")
                    await page.get_by_role("button", name="Authorize").click()
                    await expect(page).to_have_url(f"{assembly.url}/console/callbacks")
                    await expect(page.locator(".who")).to_contain_text("operator")
                query = "select actor, details ->> 'way' from app.audit where action = 'console.sign-in'"
                assert assembly.domain.rows(query) == [("operator", "oidc")]
                for name in ("nobody-here", "operator", "reviewer", "ddh-dev"):  # a client's name is nobody's subject
                    async with visiting(browser, assembly, None) as visit:
                        await visit.go("/console/sign-in/provider")
                        await visit.page.locator("input[name=sub]").first.fill(name)
                        await visit.page.get_by_role("button", name="Authorize").click()
                        told = visit.page.get_by_role("alert")
                        await expect(told).to_contain_text(f"--issuer {issuer} --subject {name}")
                        assert "cairn_session" not in {each["name"] for each in await visit.page.context.cookies()}
                async with visiting(browser, assembly, None) as visit:
                    await visit.go("/console/signed-in?state=guessed&code=guessed")
                    await expect(visit.page.get_by_role("alert")).to_contain_text("has not begun to sign in")


async def bind(assembly: Assembly, client_id: str, subject: str, **more: Any) -> httpx.Response:
    """What an administrator does with the pair that whoever signs in is shown."""
    async with assembly.domain.as_("admin") as admin:
        return await admin.put(f"/api/v1/clients/{client_id}/sign-in", json={"subject": subject, **more})


Answer = Callable[[dict[str, list[str]]], Reply]


def _reply(receiver: Receiver, answer: Answer) -> Callable[[Received], Reply]:
    """A provider that describes itself, publishes its keys, and answers codes as told."""

    def reply(request: Received) -> Reply:
        if request.path.endswith("/openid-configuration"):
            told = {"issuer": receiver.url, "authorization_endpoint": f"{receiver.url}/authorize"}
            told |= {"token_endpoint": f"{receiver.url}/token", "jwks_uri": f"{receiver.url}/keys"}
            return _json(told)
        return published("rsa") if request.path.endswith("/keys") else answer(parse_qs(request.body.decode()))

    return reply


def _json(content: Any, status: int = 200) -> Reply:
    return Reply(status, {"content-type": "application/json"}, json.dumps(content).encode())


def provider_at(receiver: Receiver) -> Provider:
    return Provider(receiver.url, "cairn", None, "openid", development=True)


async def _signed_in(receiver: Receiver, tokens: Callable[[str], Any], **given: str) -> Vouched:
    """Begin, come back with a code, and finish, where the provider's token is made from the nonce."""
    provider = provider_at(receiver)
    nonce = ""
    receiver.reply = _reply(
        receiver, lambda _form: _json({"access_token": "a", "token_type": "Bearer", **tokens(nonce)})
    )
    address, pending = await provider.begin(BACK)
    nonce = parse_qs(urlsplit(address).query)["nonce"][0]
    return await provider.finish(pending, {"state": pending.state, "code": "c0de"} | given)


def _good(receiver: Receiver, nonce: str, /, **changes: Any) -> dict[str, Any]:
    claims = {"iss": receiver.url, "aud": "cairn", "nonce": nonce, "sub": "op-4711", "preferred_username": "reviewer"}
    return {"id_token": token(**(claims | changes))}


async def test_authorization_code_is_exchanged_with_the_promised_pkce_verifier() -> None:
    seen: list[dict[str, list[str]]] = []
    async with running_receiver() as receiver:
        provider = provider_at(receiver)

        def answer(form: dict[str, list[str]]) -> Reply:
            seen.append(form)
            return _json({"error": "invalid_grant"}, 400)

        receiver.reply = _reply(receiver, answer)
        address, pending = await provider.begin(BACK)
        with pytest.raises(SignInRefused):
            await provider.finish(pending, {"state": pending.state, "code": "c0de"})
    asked = parse_qs(urlsplit(address).query)
    digest = hashlib.sha256(seen[0]["code_verifier"][0].encode()).digest()
    assert asked["code_challenge"] == [base64.urlsafe_b64encode(digest).decode().rstrip("=")]
    assert asked["code_challenge_method"] == ["S256"]
    assert (asked["redirect_uri"], asked["response_type"]) == ([BACK], ["code"])
    assert len(seen[0]["code_verifier"][0]) >= 43


GOOD: dict[str, dict[str, Any]] = {
    "one audience": {},
    "a list of one": {"aud": ["cairn"]},
    "handed to us": {"azp": "cairn"},
    "made for several, handed to us": {"aud": ["other", "cairn"], "azp": "cairn"},
}


@pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD)
async def test_good_token_identifies_a_person_by_issuer_and_subject_alone(changes: dict[str, Any]) -> None:
    async with running_receiver() as receiver:
        person = await _signed_in(receiver, lambda nonce: _good(receiver, nonce, **changes))
        assert person == Vouched(receiver.url, "op-4711")


BAD: dict[str, dict[str, Any]] = {
    "another sign-in": {"nonce": "other"},
    "no nonce": {"nonce": None},
    "another audience": {"aud": "other"},
    "another issuer": {"iss": "https://evil.test"},
    "expired": {"iat": 1_000_000_000, "exp": 1_000_000_600},
    "names nobody": {"sub": None},
    "names the empty": {"sub": ""},
    "names a list": {"sub": ["op-4711"]},
    "names more than a name": {"sub": "o" * 256},
    "hides a letter in the name": {"sub": "op-4711\u200b"},
    "handed to another": {"azp": "other"},
    "made for several, handed to another": {"aud": ["cairn", "other"], "azp": "other"},
    "made for several, handed to nobody said": {"aud": ["cairn", "other"]},
    "another key": {"key": FOREIGN},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
async def test_token_with_one_wrong_claim_is_refused(changes: dict[str, Any]) -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda nonce: _good(receiver, nonce, **changes))


@pytest.mark.parametrize("given", [{"state": "guessed"}, {"state": ""}, {"iss": "https://evil.test"}])
async def test_answer_with_another_state_or_nonce_is_refused(given: dict[str, str]) -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda nonce: _good(receiver, nonce), **given)


async def test_answer_without_a_token_signs_nobody_in() -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda _nonce: {})


@pytest.mark.parametrize(
    "reply", [Reply(500), Reply(200, {}, b"<html>"), Reply(200, {}, b'{"issuer": "https://evil.test"}')]
)
async def test_provider_with_a_broken_discovery_document_signs_nobody_in(reply: Reply) -> None:
    async with running_receiver() as receiver:
        receiver.reply = lambda _request: reply
        with pytest.raises(ProviderUnavailable):
            await provider_at(receiver).begin(BACK)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    ("address", "development", "is_used"),
    [
        ("http://login.test/x", False, False),
        ("http://login.test/x", True, False),
        ("http://127.0.0.1:9/x", False, False),
        ("http://127.0.0.1:9/x", True, True),
        ("https://login.test/x", False, True),
        ("ftp://login.test/x", True, False),
        ("https:///x", True, False),
        (7, True, False),
    ],
)
async def test_provider_address_is_used_only_over_https(
    name: str, address: Any, development: bool, is_used: bool
) -> None:
    async with running_receiver() as receiver:
        told = dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), "https://login.test/x")
        receiver.reply = lambda _request: _json({"issuer": receiver.url, **told, name: address})
        begun = Provider(receiver.url, "cairn", None, "openid", development).begin(BACK)
        if is_used:
            await begun
            return
        with pytest.raises(ProviderUnavailable):
            await begun


async def test_provider_that_is_away_is_asked_once_for_many_sign_ins() -> None:
    async with running_receiver() as receiver:
        receiver.reply = lambda _request: Reply(500)
        provider = provider_at(receiver)
        for _ in range(20):
            with pytest.raises(ProviderUnavailable):
                await provider.begin(BACK)
        assert receiver.connections == 1


async def test_starting_a_sign_in_writes_no_row(database: TestDatabase, tmp_path: Path) -> None:
    """What waits for the provider is the browser's: sealed, its own, for ten minutes, whichever process it asks."""
    async with running_receiver() as receiver:
        receiver.reply = _reply(receiver, lambda _form: _json({"error": "invalid_grant"}, 400))
        settings = {"oidc_issuer": receiver.url, "oidc_client_id": "cairn", "development": True}
        async with (
            running_domain(database, tmp_path, **settings) as domain,
            another_domain(database, tmp_path, **settings) as other,
        ):
            with psycopg.connect(database.url()) as connection:
                connection.execute("revoke insert, update, delete on app.console_sessions, app.audit from cairn_app")
            async with httpx.AsyncClient(transport=domain.transport, base_url="http://cairn.test") as browser:
                clicks = [await browser.get("/console/sign-in/provider?next=/console/assets") for _ in range(50)]
            assert {sent.status_code for sent in clicks} == {303}
            sent = clicks[-1]
            [cookie] = sent.headers.get_list("set-cookie")
            assert {"HttpOnly", "Path=/console", "SameSite=lax", "Max-Age=600"} <= set(cookie.split("; "))
            sealed = cookie.partition(";")[0].partition("=")[2].strip('"')
            state = parse_qs(urlsplit(sent.headers["location"]).query)["state"][0]
            assert state not in sealed
            for who, cookies, says in (
                (domain, {}, "has not begun to sign in"),
                (domain, {"cairn_sign_in": sealed[:-4] + "AAA="}, "has not begun to sign in"),
                (domain, {"cairn_sign_in": sealed}, "does not know this sign-in"),  # the code, for the rest was right
                (other, {"cairn_sign_in": sealed}, "does not know this sign-in"),
            ):
                async with httpx.AsyncClient(transport=who.transport, base_url="http://x", cookies=cookies) as back:
                    answer = await back.get(f"/console/signed-in?state={state}&code=c0de")
                assert (answer.status_code, says in answer.text) == (403, True)
                assert 'cairn_sign_in=""' in answer.headers["set-cookie"], "well or not, it is over"


def test_sign_in_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PendingSignIns(["a key"])
    cookie = kept.seal(PendingSignIn("s", "n", "v", BACK, "/console/"))
    opened = PendingSignIns(["another", "a key"]).opened(cookie)
    assert opened == PendingSignIn("s", "n", "v", BACK, "/console/")
    assert PendingSignIns(["another"]).opened(cookie) is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + PENDING_SECONDS + 1)
    assert kept.opened(cookie) is None
