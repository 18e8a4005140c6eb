"""Processes of the domain by the dozen, forked from one that has imported it."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deployments.stack.state import REPOSITORY
from tests.support.warm import Forked, Place, forked


def started(port: int, environment: Mapping[str, str], log: Path) -> Forked:
    """One that serves this port with this environment and no other. It ends with this process."""
    return forked(Place(REPOSITORY, environment, log, log), _serve, port)


@contextmanager
def serving(port: int, environment: Mapping[str, str], log: Path) -> Iterator[None]:
    """The same while the block runs."""
    process = started(port, environment, log)
    try:
        yield
    finally:
        process.process.terminate()
        process.wait(120)


def _serve(port: int) -> None:
    import uvicorn

    from domain import failpoints

    importlib.reload(failpoints)  # which place is armed was looked up when it was imported
    options: dict[str, Any] = {"http": "gateway.edge.http_protocol:InsideProtocol", "access_log": False}
    uvicorn.run("domain.app:create_app", factory=True, host="127.0.0.1", port=port, **options)
