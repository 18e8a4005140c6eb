"""The stack's certificates, and what ends TLS before it: names, ends, renewal, who is let in and who is told apart."""

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deployments.cli import cairn
from deployments.stack import front
from deployments.stack.certs import SERVER_DAYS, Certificates, names_for
from deployments.stack.front import Front, stand_in
from deployments.stack.health import accepts
from deployments.stack.opening import LISTEN, CannotListen, Opening
from deployments.stack.ports import any_port
from deployments.stack.state import StackState
from tests.support.clock import PATIENCE_SECONDS

NAMES = ["worker-net.example", "10.1.2.3", "127.0.0.1"]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    made = Certificates(tmp_path / "certs")
    made.ensure(NAMES)
    return made


def sha(certificates: Certificates) -> tuple[str, str]:
    facts = certificates.facts()
    return facts["authority"]["sha256"], facts["server"]["sha256"]


def test_files_of_certificates_are_their_owners_alone(certificates: Certificates) -> None:
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in certificates.folder.iterdir()}
    assert modes == dict.fromkeys(("ca.key", "ca.pem", "server.key", "server.pem"), "0o600")
    assert certificates.folder.stat().st_mode & 0o777 == 0o700


def test_certificates_that_are_good_are_kept(certificates: Certificates) -> None:
    before = sha(certificates)
    assert not certificates.ensure(NAMES[:2])
    assert sha(certificates) == before


@pytest.mark.parametrize(("days", "is_new"), [(SERVER_DAYS - 31, False), (SERVER_DAYS - 29, True), (5000, True)])
def test_server_certificate_is_renewed_in_its_last_thirty_days(tmp_path: Path, days: int, is_new: bool) -> None:
    certificates = Certificates(tmp_path)
    certificates.ensure(NAMES, NOW)
    authority, server = sha(certificates)
    assert certificates.ensure(NAMES, NOW + timedelta(days=days)) is is_new
    assert (sha(certificates)[1] != server) is is_new
    assert (sha(certificates)[0] != authority) is (days > 3650), "the authority lives ten years"


def test_another_name_makes_another_certificate_of_the_same_authority(certificates: Certificates) -> None:
    authority, server = sha(certificates)
    assert certificates.ensure([*NAMES, "other.example"])
    assert "other.example" in certificates.names()
    assert (sha(certificates)[0], sha(certificates)[1] == server) == (authority, False)


def test_listening_address_is_among_the_names_first() -> None:
    assert names_for("10.1.2.3")[0] == "10.1.2.3"
    assert {"localhost", "127.0.0.1"} < set(names_for("10.1.2.3"))


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A service that says who asks, and gives back what it was told."""
    told = await reader.readline()
    writer.write(f"{writer.get_extra_info('peername')[0]} ".encode() + told)
    await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def fronted(certificates: Certificates, port: int) -> AsyncIterator[int]:
    """A front at another loopback address, for the service of this port."""
    serving = asyncio.create_task(Front("127.0.0.2", [port], certificates.server, certificates.server_key).serve())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if await accepts("127.0.0.2", port):
                    break
                await asyncio.sleep(0.02)
        yield port
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def opened(certificates: Certificates) -> AsyncIterator[int]:
    """A front with a service behind it."""
    service = await asyncio.start_server(answering, "127.0.0.1", any_port())
    async with service, fronted(certificates, service.sockets[0].getsockname()[1]) as port:
        yield port


async def ask(port: int, tls: ssl.SSLContext | None, name: str = NAMES[0]) -> tuple[bytes, dict[str, Any]]:
    """What the service answers, and the certificate that was shown."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.2", port, ssl=tls, server_hostname=name if tls else None, local_addr=("127.0.0.9", 0)
    )
    try:
        writer.write(b"hello\n")
        return await reader.read(), writer.get_extra_info("peercert") or {}
    finally:
        writer.transport.abort()


async def test_front_lets_in_who_speaks_tls_and_names_strangers_apart(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    async with opened(certificates) as port:
        for name in NAMES[:2]:
            answer, _ = await ask(port, trusting, name)
            assert answer == f"{stand_in('127.0.0.9')} hello\n".encode()
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere"):
            await ask(port, trusting, "elsewhere.example")
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(port, ssl.create_default_context())
        plain = await asyncio.gather(ask(port, None), return_exceptions=True)
        assert b"hello" not in str(plain).encode(), "nothing passes without TLS"


async def test_renewed_certificate_is_shown_without_a_restart(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "LOOK_SECONDS", 0.05)
    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    async with opened(certificates) as port:
        _, before = await ask(port, trusting)
        certificates.renew(NAMES)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                _, shown = await ask(port, trusting)
                if shown["serialNumber"] != before["serialNumber"]:
                    break
                await asyncio.sleep(0.05)


async def test_stranger_of_a_service_that_is_away_is_turned_away(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    async with fronted(certificates, any_port()) as port:
        with contextlib.suppress(OSError):
            answer, _ = await ask(port, trusting)
            assert answer == b""


def test_strangers_stand_in_is_loopback_and_never_the_one_that_is_trusted() -> None:
    found = [stand_in(f"10.0.{n // 250}.{n % 250 + 1}") for n in range(2000)] + [stand_in("fd00::1")]
    assert all(one.startswith("127.") and not one.startswith("127.0.") for one in found)
    assert len(set(found)) == len(found)
    assert stand_in("10.0.0.1") == found[0]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1", "is loopback"),
        ("localhost", "is loopback"),
        ("0.0.0.0", "means all of them"),  # noqa: S104 - which is refused
        ("::", "means all of them"),
        ("192.0.2.77", "is no address of this host"),
        ("nowhere.invalid", "is no address of this host"),
    ],
)
def test_address_that_is_not_this_hosts_own_is_refused(tmp_path: Path, address: str, says: str) -> None:
    with pytest.raises(CannotListen, match=says):
        Opening(StackState(tmp_path), address).bound()


def test_worker_settings_are_private_and_hold_what_a_worker_needs(tmp_path: Path) -> None:
    opening = Opening(StackState(tmp_path), "10.1.2.3")
    opening.prepare()
    opening.write_worker_settings({"prefect": 4200, "domain": 8001}, {"CAIRN_STORAGE_ROOT": "/data/a b"})
    assert opening.settings.stat().st_mode & 0o777 == 0o600
    told = opening.settings.read_text()
    for line in (
        "export PREFECT_API_URL=https://10.1.2.3:4200/api",
        "export CAIRN_DOMAIN_URL=https://10.1.2.3:8001",
        "export CAIRN_STORAGE_ROOT='/data/a b'",
        f"export CAIRN_WORKER_TOKEN={opening.state.secrets['worker']}",
    ):
        assert line in told
    printed = opening.instructions({})
    assert opening.state.secrets["worker"] not in printed, "no credential is on a command line or a screen"
    assert f"  . {opening.settings} && cairn worker start --pool gdal\n" in printed
    assert printed.endswith(f"  . {opening.settings} && prefect worker start --type process --pool gdal")


def test_certs_show_and_renew_say_names_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_STATE", str(tmp_path))
    monkeypatch.delenv(LISTEN, raising=False)
    assert CliRunner().invoke(cairn, ["certs", "show"]).exit_code == 1
    assert CliRunner().invoke(cairn, ["certs", "renew"]).exit_code == 1
    opening = Opening(StackState(tmp_path), "10.1.2.3")
    opening.prepare()
    opening.write_worker_settings({"prefect": 1, "domain": 2}, {})
    shown = json.loads(CliRunner().invoke(cairn, ["certs", "show", "--json"]).stdout)
    assert shown["server"]["names"][-1] == "127.0.0.1" or "10.1.2.3" in shown["server"]["names"]
    assert shown["server"]["days_left"] in {SERVER_DAYS, SERVER_DAYS - 1}
    renewed = json.loads(CliRunner().invoke(cairn, ["certs", "renew", "--authority", "--json"]).stdout)
    assert renewed["server"]["names"] == shown["server"]["names"]
    assert renewed["authority"]["sha256"] != shown["authority"]["sha256"]
    assert opening.authority.read_bytes() == opening.certificates.authority.read_bytes()
    assert not [path for path in tmp_path.rglob("*.new") if os.path.lexists(path)]
