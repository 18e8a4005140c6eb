"""Posting to partners: to the address that was judged, by its certificate's name, once, and never for ever."""

import asyncio
import ssl
from collections.abc import Sequence
from ipaddress import IPv4Network, ip_address
from pathlib import Path

import pytest

from domain.adapters.callback_delivery import Answer, CallbackPoster
from domain.rules.addresses import Address, AddressPolicy
from tests.support.certificates import certificates
from tests.support.receiver import Reply, running_receiver

ONE = IPv4Network("127.0.0.1/32")


class Resolver:
    """A name server that answers differently each time; the last answer is its final one."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = [[ip_address(address) for address in answer] for answer in answers]
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def webhooks(resolver: Resolver, seconds: float = 5.0, tls: ssl.SSLContext | None = None) -> CallbackPoster:
    policy = AddressPolicy(https_only=False, ports=None, networks=(ONE,))
    return CallbackPoster(policy, seconds, tls or ssl.create_default_context(), resolver)


def named(url: str, host: str = "hooks.example.com") -> str:
    return url.replace("127.0.0.1", host).replace("127.0.0.2", host)


async def test_rebound_name_reaches_no_internal_address() -> None:
    resolver = Resolver(["127.0.0.1"], ["127.0.0.2"])
    async with running_receiver("127.0.0.1") as allowed:
        port = allowed.url.rsplit(":", 1)[1].removesuffix("/hook")
        inside = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.2", int(port))
        async with inside:
            sender = webhooks(resolver)
            first = await sender.post(named(allowed.url), {}, b"{}")
            assert (first.status, resolver.asked) == (204, 1)  # resolved once: nothing between check and connection
            second = await sender.post(named(allowed.url), {}, b"{}")
    assert second.error == "not called: 127.0.0.2 is not a public address."
    assert allowed.connections == 1


async def test_name_with_one_internal_address_among_public_ones_is_refused() -> None:
    async with running_receiver() as receiver:
        for answer in (["127.0.0.1", "10.0.0.1"], ["127.0.0.1", "::1"], ["169.254.169.254"], []):
            refused = await webhooks(Resolver(answer)).post(named(receiver.url), {}, b"{}")
            assert refused.status is None
            assert refused.error
    assert receiver.connections == 0


async def test_redirect_of_a_receiver_is_not_followed() -> None:
    async with running_receiver() as trap, running_receiver() as receiver:
        receiver.reply = lambda _request: Reply(302, {"location": trap.url})
        answer = await webhooks(Resolver(["127.0.0.1"])).post(named(receiver.url), {}, b"{}")
    assert answer.status == 302
    assert (receiver.connections, trap.connections) == (1, 0)


async def test_only_an_excerpt_of_a_receivers_answer_is_kept() -> None:
    async with running_receiver() as receiver:
        receiver.reply = lambda _request: Reply(500, {"retry-after": "7"}, b"\x00secret\xff" + b"x" * 1_000_000)
        answer = await webhooks(Resolver(["127.0.0.1"])).post(named(receiver.url), {"a": "b"}, b"{}")
    assert (answer.status, answer.retry_after) == (500, "7")
    assert answer.excerpt is not None
    assert answer.excerpt.startswith("\ufffdsecret\ufffd")
    assert len(answer.excerpt) <= 200
    assert receiver.received[0].headers["a"] == "b"
    assert receiver.received[0].headers["host"].startswith("hooks.example.com:")


async def test_slow_receiver_is_given_up_after_the_timeout() -> None:
    async with running_receiver() as receiver:
        receiver.reply = lambda _request: Reply(delay_seconds=2.0)
        answer = await webhooks(Resolver(["127.0.0.1"]), seconds=0.2).post(named(receiver.url), {}, b"{}")
    assert answer.error == "no answer within 0.2 s"
    assert 200 <= answer.duration_ms < 1000


async def test_refused_connection_is_recorded_as_a_failed_try() -> None:
    async with running_receiver() as receiver:
        url = receiver.url
    answer = await webhooks(Resolver(["127.0.0.1"])).post(named(url), {}, b"{}")
    assert answer.status is None
    assert answer.error is not None
    assert answer.error.startswith("ConnectError")


@pytest.mark.parametrize(("host", "status"), [("hooks.example.com", 204), ("other.example.com", None)])
async def test_certificate_is_checked_against_the_name_and_not_the_address(
    tmp_path: Path, host: str, status: int | None
) -> None:
    server, client = certificates(tmp_path, "hooks.example.com")
    async with running_receiver(tls=server) as receiver:
        answer: Answer = await webhooks(Resolver(["127.0.0.1"]), tls=client).post(named(receiver.url, host), {}, b"{}")
    assert answer.status == status
    assert (answer.error is None) == (status is not None)
    assert len(receiver.received) == (status is not None)
