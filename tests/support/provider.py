"""A fake OpenID Connect provider in a process of its own: anybody who names somebody is signed in as them."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from deployments.stack.owner import tied
from deployments.stack.ports import any_port

START_SECONDS = 120.0


@contextmanager
def running_provider() -> Iterator[str]:
    """Its issuer."""
    port = any_port()
    command = tied(sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", port)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _issuer(f"http://localhost:{port}/.well-known/openid-configuration")
    finally:
        process.terminate()
        process.wait(10)


def _issuer(address: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return str(httpx.get(address).raise_for_status().json()["issuer"])
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
