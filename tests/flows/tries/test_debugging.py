"""A developer's debugger stops a try before its first line; nowhere but on a developer's machine."""

import inspect
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic import ValidationError

from deployments.workers import confining
from domain.contracts.runs import RunFacts
from flows.settings import DebugSettings
from flows.storage import Zones
from flows.tries import debugging, one_try
from flows.tries.one_try import Care, Try
from tests.support import probes
from tests.support.clock import PATIENCE_SECONDS, until

AT_HOME = {"CAIRN_DEBUG_HANDLER": "raster.validate", "CAIRN_DEVELOPMENT": "true", "CAIRN_TRY_CONFINEMENT": "off"}


def with_environment(patch: pytest.MonkeyPatch, **environment: str) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)


@pytest.mark.parametrize(
    "changed",
    [{"CAIRN_DEVELOPMENT": "false"}, {"CAIRN_TRY_CONFINEMENT": "available"}, {"CAIRN_TRY_CONFINEMENT": "required"}],
)
def test_debugger_is_refused_outside_development_and_beside_confinement(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    with_environment(monkeypatch, **(AT_HOME | changed))
    with pytest.raises(ValidationError, match="developer's machine"):
        debugging.port_for("raster.validate")
    with pytest.raises(confining.CannotConfine, match="developer's machine"):
        confining.refuse_debugger_elsewhere()


def test_only_tries_of_the_named_handler_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert debugging.port_for("raster.validate") is None
    with_environment(monkeypatch, **AT_HOME)
    assert debugging.port_for("raster.validate") == DebugSettings.model_fields["debug_port"].default
    assert debugging.port_for("raster.make_cog") is None
    confining.refuse_debugger_elsewhere()


class Editor:
    """The little of the Debug Adapter Protocol that an editor speaks to stop at one line."""

    def __init__(self, port: int) -> None:
        self._socket = connection(port)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._stream, self._number = self._socket.makefile("rwb"), 0

    def ask(self, command: str, **arguments: Any) -> int:
        self._number += 1
        told = json.dumps({"seq": self._number, "type": "request", "command": command, "arguments": arguments}).encode()
        self._stream.write(b"Content-Length: %d\r\n\r\n" % len(told) + told)
        self._stream.flush()
        return self._number

    def hear(self, kind: str, name: str) -> dict[str, Any]:
        """The body of the next message of this kind and name."""
        while True:
            length = int(self._stream.readline().split(b":")[1])
            self._stream.readline()
            message = json.loads(self._stream.read(length))
            if message["type"] == kind and message.get("event" if kind == "event" else "command") == name:
                return dict(message.get("body") or {})

    def stopped_at(self, file: str, line: int) -> dict[str, Any]:
        """Attach, stop at the line, and tell the frame."""
        self.ask("initialize", adapterID="test")
        self.hear("response", "initialize")
        self.ask("attach", justMyCode=True)
        self.hear("event", "initialized")
        self.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": line}])
        self.ask("configurationDone")
        self._thread = self.hear("event", "stopped")["threadId"]
        self.ask("stackTrace", threadId=self._thread, levels=1)
        [frame] = self.hear("response", "stackTrace")["stackFrames"]
        return dict(frame)

    def value_of(self, expression: str, frame: dict[str, Any]) -> str:
        self.ask("evaluate", expression=expression, frameId=frame["id"])
        return str(self.hear("response", "evaluate")["result"])

    def go_on(self) -> None:
        self.ask("continue", threadId=self._thread)
        self.hear("response", "continue")
        self._socket.close()


def connection(port: int) -> socket.socket:
    """To whoever listens there, as soon as somebody does."""
    found: list[socket.socket] = []

    def connects() -> bool:
        with suppress(ConnectionRefusedError):
            found.append(socket.create_connection((debugging.HOST, port)))
        return bool(found)

    until(connects)
    return found[0]


def test_editor_stops_in_a_gdal_handler_and_the_try_ends_as_it_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    with socket.socket() as taken:
        taken.bind((debugging.HOST, 0))
        port = taken.getsockname()[1]
    with_environment(monkeypatch, **AT_HOME, CAIRN_DEBUG_PORT=str(port))
    monkeypatch.setenv("CAIRN_DEBUG_HANDLER", "probe.gdal")
    facts = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
    attempt = Try("n", "probe.gdal", {"what": "phases"}, facts, 60, memory="run/m1")
    care = Care(Zones.local(tmp_path), Event(), lambda *_: None)
    _, first = inspect.getsourcelines(probes._phases)
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(one_try.run_try, attempt, care)
        editor = Editor(port)
        frame = editor.stopped_at(str(Path(probes.__file__)), first + 2)
        assert frame["name"] == "_phases"
        assert editor.value_of("params.what", frame) == "'phases'"
        assert not done.done()
        editor.go_on()
        assert done.result()["seen"] == {"phase": 0}
