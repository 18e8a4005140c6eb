"""Controls of the storms: what they are made of does what it says, so that a storm in which nothing happens is none."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deployments.stack.owner import tied
from deployments.stack.ports import HOST, any_port
from deployments.stack.supervisor import MARKER
from tests.support.clock import eventually, until
from tests.support.storm.journal import Entry, Journal
from tests.support.storm.killer import Killer
from tests.support.storm.kinds import Kinds, read
from tests.support.storm.links import Line, carrying

# A service that starts a program, forks itself, and forks itself into a session of its own.
SERVICE = """
import os, subprocess, sys, time
subprocess.Popen(["sleep", "600"])
for leads in (False, True):
    if os.fork() == 0:
        os.setsid() if leads else None
        time.sleep(600)
time.sleep(600)
"""


@pytest.fixture
def service(tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    script = tmp_path / "service.py"
    script.write_text(SERVICE)
    environment = {**os.environ, MARKER: str(tmp_path)}
    command = tied(sys.executable, script)
    popen = subprocess.Popen(command, env=environment, start_new_session=True)
    until(lambda: len(kinds_of(tmp_path, popen).now()) == 4)
    yield popen
    for pids in kinds_of(tmp_path, popen).now().values():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    popen.wait()


def kinds_of(folder: Path, service: "subprocess.Popen[bytes]") -> Kinds:
    facts: dict[str, Any] = {"supervisor_pid": 0, "services": {"service": {"pid": service.pid, "step": False}}}
    return Kinds.of(str(folder), facts)


def test_process_kinds_are_found_by_the_process_table(service: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    found = kinds_of(tmp_path, service).now()
    assert set(found) == {
        "service", "service: sleep", "service: service.py fork", "service: service.py fork with a session"
    }  # fmt: skip
    assert {kind: len(pids) for kind, pids in found.items()} == dict.fromkeys(found, 1)
    assert found["service"] == [service.pid]


async def test_every_process_kind_is_killed_in_the_end(service: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    killer = Killer(kinds_of(tmp_path, service), random.Random(1))  # noqa: S311 - dice, not secrets
    before = killer.kinds.now()
    killer.seen.update(before.keys())
    assert killer.spared() == set(before)
    killer.kills.update(service=9)  # so that its children are hit first
    for _ in range(3):
        killer.seen.update(killer.kinds.now().keys())
        kind = next(kind for kind in sorted(killer.spared()))
        assert await killer._kill(kind, 1, but=set()) == set(before[kind])
        await gone(before[kind])
    assert killer.spared() == set()


@pytest.mark.parametrize("how", ["silent", "reset"])
async def test_cut_connection_carries_nothing(how: Any) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(100):
                writer.write(piece)
        await closed(writer)

    port = any_port()
    async with await asyncio.start_server(echo, HOST, port):
        line = Line("echo", any_port(), lambda: port)
        with carrying(line) as lines:
            reader, writer = await asyncio.open_connection(HOST, line.port)
            writer.write(b"before")
            assert await reader.readexactly(6) == b"before"
            lines.cut(line, how)
            writer.write(b"after")
            waiting = asyncio.create_task(reader.read(5))
            if how == "reset":
                with pytest.raises(ConnectionResetError):
                    await waiting
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection(HOST, line.port)
            else:
                await asyncio.wait([waiting], timeout=0.2)
                assert not waiting.done()
            lines.mend(line)
            if how == "silent":
                assert await waiting == b"after"
            await closed(writer)
            again, other = await asyncio.open_connection(HOST, line.port)
            other.write(b"again")
            assert await again.readexactly(5) == b"again"
            await closed(other)
    assert line.met == 2  # both ends of one connection


async def gone(pids: list[int]) -> None:
    await eventually(lambda: all(read(pid) is None for pid in pids))


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def test_journal_lists_requests_that_ended_unexpectedly() -> None:
    good = Entry("raster", "ddh", "1", request_id="a", ended="completed")
    cancelled = Entry("cancelled", "ddh", "2", ("cancelled", "completed"), request_id="b", ended="cancelled")
    parked = Entry("raster", "ddh", "3", request_id="c", ended="failed", problem="attempts-exhausted")
    lost = Entry("raster", "ddh", "4", request_id="d")
    refused = Entry("raster", "ddh", "5")
    journal = Journal([good, cancelled, parked, lost, refused])
    assert journal.accepted == [good, cancelled, parked, lost]
    assert journal.ended == [good, cancelled]
    assert [line.split(":")[0] for line in journal.wrong()] == [
        "raster c should have completed", "raster d should have completed"
    ]  # fmt: skip
