"""Signing in at a provider: with a fake one in the browser, and with one that answers whatever a test tells it."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, expect

from domain.console.oidc import Provider, ProviderUnavailable, SignInRefused
from tests.support.browsing import keep, visiting
from tests.support.cluster import TestCluster, open_folder
from tests.support.console import running_console
from tests.support.issuer import FOREIGN, published, token
from tests.support.provider import running_provider
from tests.support.receiver import Received, Receiver, Reply, running_receiver

BACK = "http://cairn.test/console/signed-in"


async def test_people_sign_in_at_their_provider(cluster: TestCluster, browser: Browser, artifacts: Path) -> None:
    with running_provider() as issuer:
        settings = {
            "oidc_issuer": issuer,
            "oidc_client_id": "cairn",
            "oidc_client_secret": "known",
            "oidc_user_claim": "sub",
        }
        with cluster.database() as database, open_folder("oidc") as storage:
            async with running_console(database, storage, **settings) as assembly:
                async with visiting(browser, assembly, None) as visit:
                    page = visit.page
                    await visit.go("/console/callbacks")
                    await page.get_by_role("link", name="Sign in with your organisation").click()
                    await page.locator("input[name=sub]").first.fill("operator")
                    await keep(visit, artifacts, "provider")
                    await page.get_by_role("button", name="Authorize").click()
                    await expect(page).to_have_url(f"{assembly.url}/console/callbacks")
                    await expect(page.locator(".who")).to_contain_text("operator")
                query = "select actor, details ->> 'way' from app.audit where action = 'console.sign-in'"
                assert assembly.domain.rows(query) == [("operator", "oidc")]
                for name in ("nobody-here", "ddh-dev"):
                    async with visiting(browser, assembly, None) as visit:
                        await visit.go("/console/sign-in/provider")
                        await visit.page.locator("input[name=sub]").first.fill(name)
                        await visit.page.get_by_role("button", name="Authorize").click()
                        await expect(visit.page.get_by_role("alert")).to_be_visible()
                        assert "cairn_session" not in {each["name"] for each in await visit.page.context.cookies()}
                async with visiting(browser, assembly, None) as visit:
                    await visit.go("/console/signed-in?state=guessed&code=guessed")
                    await expect(visit.page.get_by_role("alert")).to_contain_text("has not begun to sign in")


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


async def _signed_in(receiver: Receiver, tokens: Callable[[str], Any], **given: str) -> str:
    """Begin, come back with a code, and finish, where the provider's token is made from the nonce."""
    provider = Provider(receiver.url, "cairn", None, "openid", "preferred_username")
    nonce = ""
    receiver.reply = _reply(
        receiver, lambda _form: _json({"access_token": "a", "token_type": "Bearer", **tokens(nonce)})
    )
    address, pending = await provider.begin(BACK)
    nonce = parse_qs(urlsplit(address).query)["nonce"][0]
    return await provider.finish(pending, {"state": pending["state"], "code": "c0de"} | given)


def _good(receiver: Receiver, nonce: str, /, **changes: Any) -> dict[str, Any]:
    claims = {"iss": receiver.url, "aud": "cairn", "nonce": nonce, "preferred_username": "reviewer"}
    return {"id_token": token(**(claims | changes))}


async def test_the_code_is_worth_something_only_with_the_verifier_that_was_promised() -> None:
    seen: list[dict[str, list[str]]] = []
    async with running_receiver() as receiver:
        provider = Provider(receiver.url, "cairn", None, "openid", "preferred_username")

        def answer(form: dict[str, list[str]]) -> Reply:
            seen.append(form)
            return _json({"error": "invalid_grant"}, 400)

        receiver.reply = _reply(receiver, answer)
        address, pending = await provider.begin(BACK)
        with pytest.raises(SignInRefused):
            await provider.finish(pending, {"state": pending["state"], "code": "c0de"})
    asked = parse_qs(urlsplit(address).query)
    digest = hashlib.sha256(seen[0]["code_verifier"][0].encode()).digest()
    assert asked["code_challenge"] == [base64.urlsafe_b64encode(digest).decode().rstrip("=")]
    assert asked["code_challenge_method"] == ["S256"]
    assert (asked["redirect_uri"], asked["response_type"]) == ([BACK], ["code"])
    assert len(seen[0]["code_verifier"][0]) >= 43


async def test_a_good_token_names_the_person() -> None:
    async with running_receiver() as receiver:
        assert await _signed_in(receiver, lambda nonce: _good(receiver, nonce)) == "reviewer"


BAD: dict[str, dict[str, Any]] = {
    "another sign-in": {"nonce": "other"},
    "no nonce": {"nonce": None},
    "another audience": {"aud": "other"},
    "another issuer": {"iss": "https://evil.test"},
    "expired": {"iat": 1_000_000_000, "exp": 1_000_000_600},
    "names nobody": {"preferred_username": None},
    "names a list": {"preferred_username": ["reviewer"]},
    "another key": {"key": FOREIGN},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
async def test_a_token_with_one_thing_wrong_is_not_believed(changes: dict[str, Any]) -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda nonce: _good(receiver, nonce, **changes))


@pytest.mark.parametrize("given", [{"state": "guessed"}, {"state": ""}])
async def test_an_answer_to_another_question_is_refused(given: dict[str, str]) -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda nonce: _good(receiver, nonce), **given)


async def test_no_token_is_no_sign_in() -> None:
    async with running_receiver() as receiver:
        with pytest.raises(SignInRefused):
            await _signed_in(receiver, lambda _nonce: {})


@pytest.mark.parametrize(
    "reply", [Reply(500), Reply(200, {}, b"<html>"), Reply(200, {}, b'{"issuer": "https://evil.test"}')]
)
async def test_a_provider_that_does_not_say_what_it_is_signs_nobody_in(reply: Reply) -> None:
    async with running_receiver() as receiver:
        receiver.reply = lambda _request: reply
        with pytest.raises(ProviderUnavailable):
            await Provider(receiver.url, "cairn", None, "openid", "sub").begin(BACK)
