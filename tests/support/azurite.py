"""Azurite, the emulator of Azure Storage, with TLS, and a machine identity that it believes. Real processes, no stubs.

`make test` installs it beside this file. It is spoken to as Azure is: by a managed identity's tokens, and by signatures
made with a key that it lends to that identity.
"""

import base64
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from flows.storage import ZONES, Zones
from flows.storage.account import Account
from flows.storage.azure import azure_zones

PROGRAM = Path(__file__).parent / "tools/node_modules/azurite/dist/src/blob/main.js"
ACCOUNT = "devstoreaccount1"
# The key that every Azurite has; it opens nothing else.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
TENANT = "11111111-2222-3333-4444-555555555555"
START_SECONDS = 60.0


@dataclass(frozen=True)
class Azurite:
    """A running emulator."""

    url: str
    ca_file: Path
    log: Path
    environment: dict[str, str]

    @property
    def account(self) -> Account:
        """The account as a machine with an identity sees it."""
        return Account(url=self.url, ca_file=str(self.ca_file))

    @property
    def connection_string(self) -> str:
        return f"DefaultEndpointsProtocol=https;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.url};"

    def settings(self, prefix: str) -> dict[str, str]:
        """What a service is told, beside the identity that its machine has."""
        return {
            "CAIRN_STORAGE_ACCOUNT_URL": self.url,
            "CAIRN_STORAGE_CONTAINER_PREFIX": prefix,
            "CAIRN_STORAGE_CA_FILE": str(self.ca_file),
        }

    def zones(self, prefix: str) -> Zones:
        """Zones in containers of their own, made now."""
        for zone in ZONES:
            self.account.client.create_container(f"{prefix}{zone}")
        return azure_zones(self.account, prefix)


@contextmanager
def running_azurite(folder: Path) -> Iterator[Azurite]:
    """The emulator, with the identity of this process believed by it for as long."""
    certificate, key = _certificate(folder)
    port = any_port()
    with _identity() as identity, (folder / "azurite.log").open("wb") as log:
        command = [
            "node", str(PROGRAM), "--blobHost", "127.0.0.1", "--blobPort", str(port),
            "--location", str(folder / "data"),
            "--cert", str(certificate), "--key", str(key), "--oauth", "basic", "--disableTelemetry",
        ]  # fmt: skip
        # Copying, it fetches from itself, and must believe its own certificate.
        environment = {"PATH": os.environ["PATH"], "NODE_EXTRA_CA_CERTS": str(certificate), "HOME": str(folder)}
        process = subprocess.Popen(tied(*command), env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_for(process, port, certificate, folder / "azurite.log")
            with pytest.MonkeyPatch.context() as patch:
                for name, value in identity.items():
                    patch.setenv(name, value)
                url = f"https://127.0.0.1:{port}/{ACCOUNT}"
                yield Azurite(url, certificate, folder / "azurite.log", identity)
        finally:
            process.kill()
            process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, certificate: Path, log: Path) -> None:
    trusting, deadline = ssl.create_default_context(cafile=str(certificate)), time.monotonic() + START_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as plain:
                trusting.wrap_socket(plain, server_hostname="127.0.0.1").close()
                return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "azurite.pem", folder / "azurite-key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=azurite",
            "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@contextmanager
def _identity() -> Iterator[dict[str, str]]:
    """A managed identity as App Service gives one to a machine: an endpoint that hands out tokens."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    Thread(target=server.serve_forever, name="identity", daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/token"
        yield {"IDENTITY_ENDPOINT": address, "IDENTITY_HEADER": "of this machine"}
    finally:
        server.shutdown()
        server.server_close()


class _Tokens(BaseHTTPRequestHandler):
    """Tokens as Entra ID issues them, but for their signature, which Azurite does not look at."""

    def do_GET(self) -> None:
        """Answer the machine's own processes."""
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": f"https://sts.windows.net/{TENANT}/",
            "iat": now,
            "nbf": now - 60,
            "exp": now + 3600,
            "oid": "66666666-7777-8888-9999-000000000000",
            "tid": TENANT,
            "ver": "1.0",
        }
        token = ".".join((_part({"alg": "RS256", "typ": "JWT"}), _part(claims), "c2lnbmF0dXJl"))
        answer = {
            "access_token": token,
            "expires_on": str(now + 3600),
            "resource": claims["aud"],
            "token_type": "Bearer",
        }
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def fetched(url: str, ca_file: Path) -> bytes:
    """What whoever holds the URL gets."""
    with urlopen(url, context=ssl.create_default_context(cafile=str(ca_file))) as answer:  # noqa: S310 - loopback
        content: bytes = answer.read()
        return content
