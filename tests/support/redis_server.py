"""A real Redis for tests, as stacks configure theirs: nothing is kept on disk, and what is full takes no writes."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from tests.support.clock import until

SETTINGS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Its address."""
    port = any_port()
    command = tied("redis-server", *SETTINGS, "--port", port, "--dir", folder)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with redis.Redis(port=port) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            time.sleep(0.05)
            return False
