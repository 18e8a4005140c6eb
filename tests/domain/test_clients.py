"""Credentials: shown once, kept as hashes, rotated without a gap, revoked at once."""

import httpx

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


async def test_a_key_lives_from_its_making_to_its_revocation(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        made = (await operator.post("/api/v1/clients", json=REVIEWER)).json()
        first = made["api_key"]
        assert first.partition(".")[0] == made["key_prefix"]
        assert made["key_prefix"].startswith("cairn_")
        assert await knocks(domain, first) == 200
        second = (await operator.post("/api/v1/clients/rosa/rotate")).json()["api_key"]
        assert [await knocks(domain, key) for key in (first, second)] == [200, 200]
        assert views(domain) == [("rosa", True), ("rosa", True)]
        third = (await operator.post("/api/v1/clients/rosa/rotate")).json()["api_key"]
        assert [await knocks(domain, key) for key in (first, second, third)] == [401, 200, 200]
        domain.rows("update app.clients set previous_until = now() where client_id = 'rosa' returning 1")
        assert [await knocks(domain, key) for key in (second, third)] == [401, 200]
        assert (await operator.post("/api/v1/clients/rosa/revoke")).json()["is_active"] is False
        assert await knocks(domain, third) == 401
        again = await operator.post("/api/v1/clients/rosa/rotate")
        assert (again.status_code, again.json()["code"]) == (409, "client-revoked")
        listed = (await operator.get("/api/v1/clients")).text
    stored = str(domain.rows("select c::text from app.clients c union all select a::text from app.audit a"))
    acts = domain.rows("select action from app.audit where subject = 'client/rosa' order by audit_id")
    assert [act for (act,) in acts] == ["client.create", "client.rotate", "client.rotate", "client.revoke"]
    for key in (first, second, third):
        assert key not in listed + stored
        assert key.partition(".")[2] not in listed + stored


async def test_nobody_makes_a_credential_above_their_own(domain: Domain) -> None:
    async with domain.as_("operator") as operator, domain.as_("admin") as admin:
        for role in ("operator", "admin", "worker", "gateway"):
            body = {"client_id": f"new-{role}", "role": role, "display_name": role}
            assert (await operator.post("/api/v1/clients", json=body)).status_code == 403
            assert (await admin.post("/api/v1/clients", json=body)).status_code == 201
        assert (await operator.post("/api/v1/clients/worker/rotate")).status_code == 403
        assert (await operator.post("/api/v1/clients/admin/revoke")).status_code == 403


async def test_what_cannot_be_a_client_is_refused_with_a_sentence(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        assert (await operator.post("/api/v1/clients", json=PARTNER)).status_code == 201
        for changes, status, says in (
            ({}, 409, "geo-1 already"),
            ({"client_id": "geo-2", "platform_id": None}, 422, "platform_id"),
            ({"client_id": "geo-2", "platform_id": "nobody"}, 422, "nobody"),
            ({"client_id": "geo-2", "role": "reviewer"}, 422, "names none"),
            ({"client_id": "../x"}, 422, "client_id"),
            ({"client_id": "geo-2", "scopes": ["everything"]}, 422, "scopes"),
        ):
            answer = await operator.post("/api/v1/clients", json=PARTNER | changes)
            assert answer.status_code == status, answer.text
            assert says in answer.json()["detail"]
        assert (await operator.post("/api/v1/clients/nobody/revoke")).status_code == 404


async def test_a_scope_is_given_to_partners_and_shown(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        made = await operator.post("/api/v1/clients", json=PARTNER | {"scopes": ["review"]})
        assert (made.status_code, made.json()["scopes"]) == (201, ["review"])
        refused = await operator.post("/api/v1/clients", json=REVIEWER | {"scopes": ["review"]})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-client")
    assert domain.rows("select scopes from api.identities where client_id = 'geo-1'") == [(["review"],)]


async def test_a_key_works_for_its_time_and_its_client_for_longer(domain: Domain) -> None:
    over = "update app.clients set key_until = now() - interval '1 s' where client_id = 'rosa' returning 1"
    async with domain.as_("operator") as operator:
        made = (await operator.post("/api/v1/clients", json=REVIEWER | {"key_days": 30})).json()
        [(days,)] = domain.rows(
            "select extract(epoch from key_until - now()) / 86400 from app.clients where client_id = 'rosa'"
        )
        assert 29.9 < days < 30
        assert await knocks(domain, made["api_key"]) == 200
        domain.rows(over)
        assert await knocks(domain, made["api_key"]) == 401
        assert domain.rows("select secret_hash from api.identities where client_id = 'rosa'") == [(None,)]  # for tokens
        new = (await operator.post("/api/v1/clients/rosa/rotate")).json()
        assert [await knocks(domain, one["api_key"]) for one in (made, new)] == [401, 200]  # no key outlives its time
        assert new["key_until"] > made["key_until"]
        refused = await operator.post("/api/v1/clients", json=PARTNER | {"key_days": 0})
    assert (refused.status_code, "key_days" in refused.json()["detail"]) == (422, True)
