"""Signed links: good for one file, for minutes, and for no more than their asker may read at that moment."""

from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from cryptography.fernet import Fernet

from gateway.serving.links import PARAMETER, Links
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_tiles import OWNER, STRANGER

PATH = "/tiles/inner/data.tif"


def signature(href: str) -> str:
    return urlsplit(href).query.partition(f"{PARAMETER}=")[2]


async def made(client: httpx.AsyncClient, asset: str = "inner", **headers: str) -> str:
    answer = await client.get(f"/tiles/{asset}/link", headers=headers or OWNER)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert "etag" not in answer.headers
    return str(answer.json()["href"])


async def test_a_link_works_without_a_credential(client: httpx.AsyncClient) -> None:
    href = await made(client)
    assert href.startswith("http://serving/tiles/inner/data.tif?version=1&sig=")
    assert "ddh" not in href
    given, owned = await client.get(href), await client.get(PATH, headers=OWNER)
    assert (given.status_code, given.content) == (200, owned.content)
    part = await client.get(href, headers={"Range": "bytes=0-3"})
    assert (part.status_code, len(part.content)) == (206, 4)
    assert given.headers["cache-control"].startswith("private")


async def test_reader_without_access_gets_no_link(client: httpx.AsyncClient) -> None:
    for headers in ({}, STRANGER):
        assert (await client.get("/tiles/inner/link", headers=headers)).status_code == 404
    for file in ("data.parquet", "item.json", "../inner/data.tif", "files/data-0123456789abcdef.tif"):
        answer = await client.get("/tiles/inner/link", params={"file": file}, headers=OWNER)
        assert answer.status_code == 404


@pytest.mark.parametrize("change", ["other file", "other version", "other asset", "letter", "nonsense", "empty"])
async def test_link_is_refused_for_any_other_file(change: str, client: httpx.AsyncClient) -> None:
    href = await made(client)
    signed = signature(href)
    changed = {
        "other file": href.replace("data.tif", "info"),
        "other version": href.replace("version=1", "version=latest"),
        "other asset": href.replace("/inner/", "/draft/"),
        "letter": href[:-9] + ("A" if href[-9] != "A" else "B") + href[-8:],
        "nonsense": href.replace(signed, "gAAAA"),
        "empty": href.replace(signed, ""),
    }[change]
    answer = await client.get(changed)
    assert (answer.status_code, answer.json()["code"]) == (403, "link-not-good")


async def test_link_ends_when_its_asker_loses_access(client: httpx.AsyncClient, served: Served) -> None:
    href = await made(client)
    changes = {
        "update api.products set clearance = 'uncleared' where asset_id = 'inner'": 404,
        "update api.clients set is_active = false where client_id = 'ddh-client'": 403,
    }
    undone = (
        "update api.products set clearance = 'ouo' where asset_id = 'inner'",
        "update api.clients set is_active = true where client_id = 'ddh-client'",
    )
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        for (change, status), undo in zip(changes.items(), undone, strict=True):
            connection.execute(change.encode())
            try:
                assert (await client.get(href)).status_code == status
            finally:
                connection.execute(undo.encode())
    assert (await client.get(href)).status_code == 200


async def test_a_public_file_has_links_for_anybody(client: httpx.AsyncClient) -> None:
    href = str((await client.get("/tiles/open/link")).json()["href"])
    assert (await client.get(href)).status_code == 200


def test_link_expires_after_its_time() -> None:
    now = [1_000_000.0]
    links = Links([Fernet.generate_key().decode()], 300, lambda: now[0])
    made = links.link("http://x/", "/tiles/a/data.tif", 3, "client")
    assert made.expires_at.timestamp() == 1_000_300
    for later, asker in ((0, "client"), (299, "client"), (301, None)):
        now[0] = 1_000_000.0 + later
        assert links.asker(signature(made.href), "/tiles/a/data.tif", "3") == asker


def test_link_keys_can_be_rotated_and_are_shared_by_processes() -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    made = Links([old], 300).link("http://x", "/a", 1, None)
    assert Links([new, old], 300).asker(signature(made.href), "/a", "1") == ""
    assert Links([new], 300).asker(signature(made.href), "/a", "1") is None
    assert Links([], 300).asker(signature(made.href), "/a", "1") is None
    with pytest.raises(ValueError, match="CAIRN_LINK_KEYS"):
        Links(["no key"], 300)
