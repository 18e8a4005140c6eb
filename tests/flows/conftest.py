"""One zygote for all tests of flows."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from flows.tries.fork_client import ADDRESS
from tests.support import probes
from tests.support.zygotes import CHILD, Zygote


@pytest.fixture(scope="session")
def shared_zygote() -> Iterator[Zygote]:
    running = Zygote()
    yield running
    assert running.process.poll() is None
    running.end()


@pytest.fixture(params=["interpreter", "zygote"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How children are started here; all of them know the probes."""
    kind: str = request.param
    monkeypatch.delenv(ADDRESS, raising=False)
    if kind == "zygote":
        monkeypatch.setenv(ADDRESS, request.getfixturevalue("shared_zygote").name)
    real = subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        ours = command[1:] == ["-m", "flows.tries.process_child"]
        assert not (ours and kind == "zygote"), "started cold in spite of the zygote"
        return real([command[0], "-c", CHILD] if ours else command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    with probes.declared():
        yield kind
