"""Signed URLs: what they open, for how long, and that readers get the same one while it is fresh."""

import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from pydantic import SecretStr

from flows.storage.account import Account
from flows.storage.azure import AzureStore, azure_zones
from flows.storage.signing import FRESH_SECONDS, LIFE_SECONDS, SKEW_SECONDS, LentKey, SasUrls
from gateway.serving.sources import OPEN_SECONDS
from tests.support.azurite import Azurite, fetched

HOUR = 3600
QUARTER = 900
LONGEST_REQUEST_SECONDS = 60  # as GDAL is told in flows.storage.reading


@pytest.fixture
def store(azurite: Azurite) -> AzureStore:
    zones = azurite.zones(f"s{uuid4().hex[:12]}-")
    zones.bronze.write_bytes("in/a b+c.tif", b"content")
    zones.bronze.write_bytes("in/other.tif", b"other")
    assert isinstance(zones.bronze, AzureStore)
    return zones.bronze


@pytest.fixture(params=["lent key", "account key"])
def signed(request: pytest.FixtureRequest, store: AzureStore, azurite: Azurite) -> AzureStore:
    """The same container, by each kind of signature."""
    if request.param == "lent key":
        return store
    by_key = Account(connection_string=SecretStr(azurite.connection_string), ca_file=str(azurite.ca_file))
    return replace(store, account=by_key)


def test_signed_url_reads_its_blob_and_permits_nothing_else(signed: AzureStore, azurite: Azurite) -> None:
    url = signed.readable_path("in/a b+c.tif")
    assert fetched(url, azurite.ca_file) == b"content"
    base, _, query = url.partition("?")
    for address, method in (
        (base, "GET"),
        (url.replace("in/a%20b%2Bc.tif", "in/other.tif"), "GET"),
        (f"{base.rpartition('/in/')[0]}?restype=container&comp=list&{query}", "GET"),
        (url, "DELETE"),
        (url, "PUT"),
    ):
        assert refused(address, method, azurite) in {401, 403, 404}
    assert signed.read_bytes("in/a b+c.tif") == b"content"


def refused(url: str, method: str, azurite: Azurite) -> int:
    trusting = ssl.create_default_context(cafile=str(azurite.ca_file))
    headers = {"x-ms-blob-type": "BlockBlob"} if method == "PUT" else {}
    with pytest.raises(HTTPError) as answer:
        urlopen(Request(url, method=method, headers=headers, data=b"x" if method == "PUT" else None), context=trusting)  # noqa: S310
    with answer.value:
        return answer.value.code


def test_signed_url_is_for_one_blob_by_tls_for_fifteen_minutes(signed: AzureStore) -> None:
    said = {name: value for name, (value,) in parse_qs(urlsplit(signed.readable_path("in/a b+c.tif")).query).items()}
    assert (said["sp"], said["sr"], said["spr"]) == ("r", "b", "https")
    starts, ends = (datetime.fromisoformat(said[name]).timestamp() for name in ("st", "se"))
    assert ends - starts <= QUARTER
    assert starts <= time.time() - SKEW_SECONDS + 1
    assert ends > time.time() + FRESH_SECONDS


def test_signed_url_is_reused_while_fresh_and_renewed_before_it_ends(store: AzureStore) -> None:
    now = time.time()
    urls = SasUrls(store.account, store.container, lambda: now)
    assert urls.known("in/other.tif") is None
    first = urls.sign("in/other.tif")
    now += LIFE_SECONDS - FRESH_SECONDS - 1
    assert urls.known("in/other.tif") == first
    now += 2
    assert urls.known("in/other.tif") is None
    assert urls.sign("in/other.tif") != first
    urls.forget("in/other.tif")
    assert urls.known("in/other.tif") is None


def test_serving_uses_a_signed_url_only_before_it_ends() -> None:
    """The name is remembered, and by then a raster opened by it, and by then somebody reads from that."""
    assert 2 * OPEN_SECONDS + LONGEST_REQUEST_SECONDS < FRESH_SECONDS < LIFE_SECONDS


def test_read_longer_than_a_signed_urls_life_goes_on_with_new_ones(
    store: AzureStore, azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of reading by ranges, each by what the store gives then: never by one that is about to end."""
    now = time.time() - HOUR
    urls = SasUrls(store.account, store.container, lambda: now)
    monkeypatch.setattr(AzureStore, "_urls", urls)
    given = []
    for _ in range(61):
        url = store.readable_path("in/other.tif")
        ends = datetime.fromisoformat(parse_qs(urlsplit(url).query)["se"][0]).timestamp()
        assert now + FRESH_SECONDS <= ends <= now + LIFE_SECONDS
        given.append(url)
        now += 60
    assert fetched(given[-1], azurite.ca_file) == b"other"
    assert refused(given[0], "GET", azurite) == 403
    assert len(set(given)) == 13, "another one every five minutes"


def test_user_delegation_key_is_renewed_before_it_ends(azurite: Azurite) -> None:
    now = time.time()
    lent = LentKey(azurite.account, lambda: now)
    key = lent.until(now + LIFE_SECONDS)
    assert lent.until(now + 2 * HOUR) is key
    assert lent.until(now + 7 * HOUR) is not key


def test_error_of_a_storage_account_does_not_quote_azure(azurite: Azurite) -> None:
    """Azure's errors quote addresses and headers."""
    nowhere = azure_zones(azurite.account, "there-is-no-such-").bronze
    acts: list[Callable[[], object]] = [
        lambda: nowhere.write_bytes("a/b", b""), lambda: nowhere.names("a"), lambda: nowhere.append("a/b", b"x")
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(Exception, match=r"^The storage account refused '[ab/]+': ContainerNotFound\.$"):
            act()


def test_unreachable_storage_account_is_retryable(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.storage.account.TRANSPORT", {"retry_total": 0})
    by_key = azurite.connection_string.replace(azurite.url, "https://127.0.0.1:9/devstoreaccount1")
    away = azure_zones(Account(connection_string=SecretStr(by_key)), "x-").bronze
    with pytest.raises(Exception, match=r"did not answer for 'a/b': ServiceRequestError") as fault:
        away.read_bytes("a/b")
    assert fault.value.retryable  # type: ignore[attr-defined]
    assert "127.0.0.1" not in str(fault.value)
