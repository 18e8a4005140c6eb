"""Credentials: shown once, kept as hashes, rotated without a gap, revoked at once."""

from typing import Any

import httpx
import pytest

from tests.support.platform import Domain

PARTNER = {"client_id": "geo-1", "role": "partner", "platform_id": "geonode", "display_name": "GeoNode"}
REVIEWER = {"client_id": "rosa", "role": "reviewer", "display_name": "Rosa"}


async def knocks(domain: Domain, key: str) -> int:
    """How the domain answers this key on a route of reviewers."""
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as client:
        return (await client.get("/api/v1/callbacks", headers={"X-API-Key": key})).status_code


def views(domain: Domain) -> list[tuple[str, bool]]:
    return [(name, active) for name, active in domain.rows(
        "select client_id, is_active from api.identities where client_id = 'rosa'"
    )]  # fmt: skip


async def test_key_works_from_creation_through_rotation_until_revocation(domain: Domain) -> None:
    async with domain.as_("operator") as operator, domain.as_("admin") as admin:
        made = (await admin.post("/api/v1/clients", json=REVIEWER)).json()
        first = made["api_key"]
        assert first.partition(".")[0] == made["key_prefix"]
        assert made["key_prefix"].startswith("cairn_")
        assert await knocks(domain, first) == 200
        second = (await admin.post("/api/v1/clients/rosa/rotate")).json()["api_key"]
        assert [await knocks(domain, key) for key in (first, second)] == [200, 200]
        assert views(domain) == [("rosa", True), ("rosa", True)]
        third = (await admin.post("/api/v1/clients/rosa/rotate")).json()["api_key"]
        assert [await knocks(domain, key) for key in (first, second, third)] == [401, 200, 200]
        domain.rows("update app.clients set previous_until = now() where client_id = 'rosa' returning 1")
        assert [await knocks(domain, key) for key in (second, third)] == [401, 200]
        assert (await operator.post("/api/v1/clients/rosa/revoke")).json()["is_active"] is False
        assert await knocks(domain, third) == 401
        again = await admin.post("/api/v1/clients/rosa/rotate")
        assert (again.status_code, again.json()["code"]) == (409, "client-revoked")
        listed = (await operator.get("/api/v1/clients")).text
    stored = str(domain.rows("select c::text from app.clients c union all select a::text from app.audit a"))
    acts = domain.rows("select action from app.audit where subject = 'client/rosa' order by audit_id")
    assert [act for (act,) in acts] == ["client.create", "client.rotate", "client.rotate", "client.revoke"]
    for key in (first, second, third):
        assert key not in listed + stored
        assert key.partition(".")[2] not in listed + stored


async def test_credential_above_its_makers_role_is_refused(domain: Domain) -> None:
    async with domain.as_("operator") as operator, domain.as_("admin") as admin:
        for role in ("operator", "admin", "worker", "gateway"):
            body = {"client_id": f"new-{role}", "role": role, "display_name": role}
            assert (await operator.post("/api/v1/clients", json=body)).status_code == 403
            assert (await admin.post("/api/v1/clients", json=body)).status_code == 201
        assert (await operator.post("/api/v1/clients/worker/rotate")).status_code == 403
        assert (await operator.post("/api/v1/clients/admin/revoke")).status_code == 403


async def test_invalid_client_is_refused_with_a_sentence(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        assert (await operator.post("/api/v1/clients", json=PARTNER)).status_code == 201
        for changes, status, says in (
            ({}, 409, "geo-1 already"),
            ({"client_id": "geo-2", "platform_id": None}, 422, "platform_id"),
            ({"client_id": "geo-2", "platform_id": "nobody"}, 422, "nobody"),
            ({"client_id": "geo-2", "role": "reviewer"}, 403, "handed out by admins"),
            ({"client_id": "../x"}, 422, "client_id"),
            ({"client_id": "geo-2", "scopes": ["everything"]}, 422, "scopes"),
        ):
            answer = await operator.post("/api/v1/clients", json=PARTNER | changes)
            assert answer.status_code == status, answer.text
            assert says in answer.json()["detail"]
        assert (await operator.post("/api/v1/clients/nobody/revoke")).status_code == 404


async def test_scope_is_granted_to_partners_and_listed(domain: Domain) -> None:
    async with domain.as_("admin") as admin:
        made = await admin.post("/api/v1/clients", json=PARTNER | {"scopes": ["review"]})
        assert (made.status_code, made.json()["scopes"]) == (201, ["review"])
        refused = await admin.post("/api/v1/clients", json=REVIEWER | {"scopes": ["review"]})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-client")
    assert domain.rows("select scopes from api.identities where client_id = 'geo-1'") == [(["review"],)]


async def test_expired_key_is_refused_while_its_client_lives_on(domain: Domain) -> None:
    over = "update app.clients set key_until = now() - interval '1 s' where client_id = 'rosa' returning 1"
    async with domain.as_("admin") as admin:
        made = (await admin.post("/api/v1/clients", json=REVIEWER | {"key_days": 30})).json()
        [(days,)] = domain.rows(
            "select extract(epoch from key_until - now()) / 86400 from app.clients where client_id = 'rosa'"
        )
        assert 29.9 < days < 30
        assert await knocks(domain, made["api_key"]) == 200
        domain.rows(over)
        assert await knocks(domain, made["api_key"]) == 401
        assert domain.rows("select secret_hash from api.identities where client_id = 'rosa'") == [(None,)]  # for tokens
        new = (await admin.post("/api/v1/clients/rosa/rotate")).json()
        assert [await knocks(domain, one["api_key"]) for one in (made, new)] == [401, 200]  # no key outlives its time
        assert new["key_until"] > made["key_until"]
        refused = await admin.post("/api/v1/clients", json=PARTNER | {"key_days": 0})
    assert (refused.status_code, "key_days" in refused.json()["detail"]) == (422, True)


DECIDERS = {
    "a reviewer": REVIEWER,
    "a partner's reviewer": PARTNER | {"scopes": ["review"]},
    "an operator": {"client_id": "olga", "role": "operator", "display_name": "Olga"},
}


@pytest.mark.parametrize("order", DECIDERS.values(), ids=DECIDERS)
async def test_operator_cannot_create_a_credential_that_decides(domain: Domain, order: dict[str, Any]) -> None:
    """Neither by making one, nor by renewing one, nor by becoming the person who holds one."""
    path = f"/api/v1/clients/{order['client_id']}"
    person = {"issuer": "https://login.test", "subject": "me"}
    async with domain.as_("operator") as operator, domain.as_("admin") as admin:
        assert (await operator.post("/api/v1/clients", json=order)).status_code == 403
        assert (await admin.post("/api/v1/clients", json=order)).status_code == 201
        for refused in (operator.post(f"{path}/rotate"), operator.put(f"{path}/sign-in", json=person)):
            answer = await refused
            assert (answer.status_code, "handed out by admins" in answer.json()["detail"]) == (403, True)
        allowed = 403 if order["role"] == "operator" else 200
        assert (await operator.delete(f"{path}/sign-in")).status_code == allowed
        assert (await operator.post(f"{path}/revoke")).status_code == allowed  # what is gone decides nothing


async def test_operator_cannot_lower_a_platforms_required_approvals(domain: Domain) -> None:
    """With one approval instead of two, one reviewer is the quorum."""
    facts = {"platform_id": "hub", "display_name": "Hub", "required_refs": ["id"], "version_ref": "version"}
    async with domain.as_("operator") as operator, domain.as_("admin") as admin:

        async def register(who: httpx.AsyncClient, **changes: Any) -> int:
            parameters = facts | {"approvals_required": 2, "approval_days": 30} | changes
            answer = await who.post("/api/v1/commands/platform.register", json=parameters)
            assert answer.status_code in {200, 403}, answer.text
            return answer.status_code

        rules = "select approvals_required, approval_days from app.platforms where platform_id = 'hub'"
        assert await register(operator) == 200
        for eased in ({"approvals_required": 1}, {"approval_days": None}, {"approval_days": 31}):
            assert await register(operator, **eased) == 403
            assert domain.rows(rules) == [(2, 30)]
        assert await register(operator, approvals_required=3, approval_days=7) == 200
        assert await register(admin, approvals_required=1, approval_days=None) == 200
        assert domain.rows(rules) == [(1, None)]


async def test_binding_a_second_person_or_client_is_refused(domain: Domain) -> None:
    person = {"issuer": "https://login.test", "subject": "me"}
    async with domain.as_("admin") as admin:
        await admin.post("/api/v1/clients", json=REVIEWER)
        bound = (await admin.put("/api/v1/clients/rosa/sign-in", json=person)).json()
        assert (bound["oidc_issuer"], bound["oidc_subject"]) == ("https://login.test", "me")
        assert (await admin.put("/api/v1/clients/rosa/sign-in", json=person)).status_code == 200
        taken = await admin.put("/api/v1/clients/reviewer/sign-in", json=person)
        assert (taken.status_code, taken.json()["code"]) == (409, "client-exists")
        for client_id, order, says in (
            ("ddh-dev", person, "for staff"),
            ("reviewer", {"subject": "me"}, "issuer"),  # no sign-in service is set up here that could be meant
            ("reviewer", person | {"subject": "m\ne"}, "subject"),
        ):
            refused = await admin.put(f"/api/v1/clients/{client_id}/sign-in", json=order)
            assert (refused.status_code, says in refused.json()["detail"]) == (422, True), refused.text
        assert (await admin.post("/api/v1/clients/rosa/revoke")).json()["oidc_subject"] is None
        assert (await admin.put("/api/v1/clients/reviewer/sign-in", json=person)).status_code == 200
        assert (await admin.delete("/api/v1/clients/reviewer/sign-in")).json()["oidc_subject"] is None
    acts = domain.rows("select action, subject from app.audit where action ~ 'bind' order by audit_id")
    assert acts == [
        ("client.bind", "client/rosa"),
        ("client.bind", "client/reviewer"),
        ("client.unbind", "client/reviewer"),
    ]
