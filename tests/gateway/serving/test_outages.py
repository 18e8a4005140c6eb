"""A storage account that is away: readers are told to ask again, and nobody finds its signatures in the log."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from tests.gateway.serving.conftest import Served
from tests.support.azurite import ACCOUNT, KEY

REPOSITORY = Path(__file__).parents[3]
START_SECONDS = 120.0


class _Refusing(BaseHTTPRequestHandler):
    """An account that has every blob and gives none. It keeps the signatures that it was shown."""

    shown: set[str]

    def do_HEAD(self) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": "4096", "ETag": '"1"', "x-ms-blob-type": "BlockBlob"}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.shown.update(parse_qs(urlsplit(self.path).query).get("sig", []))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """It is quiet."""


@contextmanager
def _refusing_account() -> Iterator[tuple[str, set[str]]]:
    handler = type("Refusing", (_Refusing,), {"shown": set()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{ACCOUNT}", handler.shown  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def _command_of_the_image() -> list[str]:
    """What the image of serving runs."""
    stage = (REPOSITORY / "Dockerfile").read_text().split("FROM base AS serving")[1]
    command = re.search(r"^CMD \[(.*)\]$", stage, re.MULTILINE)
    assert command is not None
    return [sys.executable, "-m", *re.findall(r'"([^"]+)"', command[1])]


@contextmanager
def _server(served: Served, account_url: str, log: Path) -> Iterator[str]:
    port = str(any_port())
    command = _command_of_the_image()
    command[command.index("--port") + 1], command[command.index("--host") + 1] = port, "127.0.0.1"
    connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={account_url};"
    own = {"CAIRN_DATABASE_SERVING_URL": served.serving_url, "CAIRN_STORAGE_CONNECTION_STRING": connection}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
    with (
        log.open("wb") as output,
        subprocess.Popen(tied(*command), env=inherited | own, cwd=REPOSITORY, stdout=output, stderr=output) as process,
    ):
        try:
            yield _ready(f"http://127.0.0.1:{port}", process, log)
        finally:
            process.terminate()


def _ready(url: str, process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return url
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_signature_of_a_storage_address_never_reaches_the_log(served: Served, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with _refusing_account() as (account_url, shown), _server(served, account_url, log) as url:
        answers = [httpx.get(f"{url}/tiles/open/{door}", timeout=30) for door in ("info", "preview.png")]
        answers.append(httpx.get(f"{url}/tiles/open/info?sig=of-a-link", timeout=30))
        endless = {"X-A": "y" * 140_000}
        assert httpx.get(f"{url}/livez", headers=endless).status_code == 431  # its heads have an end
    written = log.read_text()
    assert shown  # so the library had a URL with a signature when it failed
    for answer in answers[:2]:
        assert (answer.status_code, answer.json()["code"]) == (503, "storage-unavailable")
        assert (answer.headers["retry-after"], answer.headers["cache-control"]) == ("5", "no-store")
        assert "sig" not in answer.text
    assert answers[2].status_code == 403
    assert written.count("the storage could not be read") == 2
    for secret in (*shown, "of-a-link"):
        assert secret not in written
        assert quote(secret, safe="") not in written
    assert not re.search(r"sig=(?!\[redacted\])", written)
    assert "Traceback" not in written
