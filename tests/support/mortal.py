"""A domain process that is told where to die: `python -m tests.support.mortal`, orders on stdin, ends on stdout.

Each order is carried out in a fork of its own, with its own connections, by the real application; the failpoint ends it
with SIGKILL. What is imported once is imported once: a death costs a fraction of a second.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.stack.owner import tied

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mortal:
    """The process, as tests talk to it."""

    popen: "subprocess.Popen[str]"

    def order(self, failpoint: str, client_id: str, path: str, body: dict[str, Any]) -> int:
        """Have it post this and die on the way; returns the signal that ended it, 0 where none did."""
        assert self.popen.stdin
        assert self.popen.stdout
        order = {"failpoint": failpoint, "client_id": client_id, "path": path, "body": body}
        self.popen.stdin.write(json.dumps(order) + "\n")
        self.popen.stdin.flush()
        return int(self.popen.stdout.readline())


@contextmanager
def mortal(database_url: str, storage: Path) -> Iterator[Mortal]:
    """The process over a database and its zones."""
    from tests.support.platform import KEYS  # brings the application along, which its own process loads when it starts

    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(storage),
        "CAIRN_DATABASE_URL": database_url,
        "CAIRN_PUBLIC_URL": "http://cairn.test",
        "CAIRN_PLAINTEXT_HOSTS": '["cairn.test"]',
        **KEYS,
        "CAIRN_STORAGE_ROOT": str(storage),
        "CAIRN_RELAY_ENABLED": "false",
        "CAIRN_CALLBACKS_ENABLED": "false",
    }
    command = tied(sys.executable, "-m", "tests.support.mortal")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdin=pipe, stdout=pipe, text=True) as popen:
        try:
            yield Mortal(popen)
        finally:
            popen.kill()


def main() -> None:
    """Carry out orders until there are no more."""
    import domain.app  # noqa: F401 - what every fork needs

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _carry_out(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n")
        sys.stdout.flush()


def _carry_out(order: dict[str, Any]) -> None:
    from domain import failpoints

    failpoints._ARMED = order["failpoint"]
    failpoints.refuse_unknown()
    asyncio.run(_post(order))
    os._exit(0)


async def _post(order: dict[str, Any]) -> None:
    import httpx

    from domain.app import create_app
    from domain.settings import settings

    app = create_app(settings())
    async with app.router.lifespan_context(app):
        headers = {"Authorization": f"Bearer secret-{order['client_id']}", "If-Match": "*"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://domain", headers=headers) as http:
            await http.post(f"/api/v1{order['path']}", json=order["body"])


if __name__ == "__main__":
    main()
