"""When clients were last let in: noted at every door, written by the domain, also for doors that cannot write."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from domain.shared.background import in_background
from domain.shared.database_address import DatabaseAddress
from domain.shared.last_uses import AT_ONCE, LastUses
from tests.support.platform import Domain

SOON = 0.05


def used(domain: Domain) -> set[str]:
    return {row[0] for row in domain.rows("select client_id from app.clients where last_used_at is not null")}


async def becomes(found: Callable[[], object], expected: object) -> bool:
    for _ in range(200):
        if found() == expected:
            return True
        await asyncio.sleep(SOON)
    return False


@asynccontextmanager
async def doors(domain: Domain, role: str, here: set[str], there: set[str]) -> AsyncIterator[None]:
    """The domain with those whom it let in, and a door of that role with others."""
    writer = LastUses(DatabaseAddress(domain.database.url("cairn_app")), there, SOON)
    teller = LastUses(DatabaseAddress(domain.database.url(role)), here, SOON)
    async with in_background(writer.hear(), writer.write(), teller.tell()):
        yield


@pytest.mark.parametrize("role", ["cairn_gateway", "cairn_serving"])
async def test_last_use_of_a_client_at_any_service_is_recorded(domain: Domain, role: str) -> None:
    here, there = {"ddh-dev"}, {"operator"}
    async with doors(domain, role, here, there):
        assert await becomes(lambda: used(domain), {"ddh-dev", "operator"})
        assert await becomes(lambda: here | there, set())


async def test_many_last_uses_are_sent_in_parts_and_nonsense_is_ignored(domain: Domain) -> None:
    strangers = {f"nobody-{number}-{'x' * 50}" for number in range(2 * AT_ONCE + 1)}
    async with doors(domain, "cairn_gateway", {*strangers, "ddh-dev"}, set()):
        domain.rows("select pg_notify('cairn_used', %s)", "'; drop table app.clients; --,\\,")
        assert await becomes(lambda: used(domain), {"ddh-dev"})


async def test_authentication_notes_only_clients_that_it_lets_in(domain: Domain) -> None:
    async with domain.as_("operator") as operator, domain.as_("nobody") as nobody:
        assert (await operator.get("/api/v1/runs")).status_code == 200
        assert (await nobody.get("/api/v1/runs")).status_code == 401
    seen: Sequence[Any] = domain.transport.app.state.service.authentication.seen  # type: ignore[attr-defined]
    assert set(seen) == {"operator"}
