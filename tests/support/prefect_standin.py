"""A stand-in for Prefect's API: the handful of calls that the domain makes, in memory, and nothing that executes runs.

It is not Prefect. It keeps Prefect's promise about idempotency keys (the same key gives the same run) and can break a
connection after it has done what was asked. Tests of the real server are those of the embedded stack.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4, uuid5

import prefect

SPACE = UUID("00000000-0000-0000-0000-00000000ca12")


@dataclass
class StandIn:
    """Flow runs by key, and how often a connection breaks after a run was created."""

    drop_rate: float = 0.0
    dice: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - faults, not secrets
    by_key: dict[str, dict[str, Any]] = field(default_factory=dict)
    created: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    dropped: int = 0
    stops_at_once: bool = True  # nobody executes runs here, so what is to be cancelled is cancelled
    url: str = ""
    reachable: asyncio.Event = field(default_factory=asyncio.Event)  # while it is not set, questions are swallowed

    def handle(self, method: str, path: str, body: Any) -> Any:
        """The answer to one call; None for what it does not know."""
        parts = path.removeprefix("/api/").strip("/").split("/")
        match (method, parts):
            case ("GET", ["admin", "version"]):
                return prefect.__version__
            case ("GET", ["deployments", "name", flow, name]):
                return {"id": str(uuid5(SPACE, name)), "flow_id": str(uuid5(SPACE, flow)), "name": name}
            case ("POST", ["deployments", _, "create_flow_run", *together]):
                return self._create_together(body) if together else self._create(body)
            case ("POST", ["flow_runs", "filter"]):
                return self._filter(body.get("flow_runs") or {})
            case ("POST", ["flow_runs", flow_run_id, "set_state"]):
                return self._set_state(flow_run_id, body["state"])
            case _:
                return None

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        key = body["idempotency_key"]
        if key not in self.by_key:
            state = {"id": str(uuid4()), "type": "SCHEDULED", "name": "Scheduled"}
            run = {"id": str(uuid4()), "flow_id": str(uuid4()), "name": body["name"], "state": state}
            self.by_key[key] = run | {"idempotency_key": key, "parameters": body["parameters"]}
            self.created.put_nowait(self.by_key[key])
        return self.by_key[key]

    def _create_together(self, wanted: list[dict[str, Any]]) -> dict[str, Any]:
        made = [self._create(body) for body in wanted]
        return {"results": [{"flow_run_id": run["id"], "status": "CREATED"} for run in made]}

    def _set_state(self, flow_run_id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        for run in self.by_key.values():
            if run["id"] == flow_run_id:
                told = state["type"]
                if told == "CANCELLING" and self.stops_at_once:
                    told = "CANCELLED"
                run["state"] |= {"type": told, "name": told.title()}
                return {"state": state, "status": "ACCEPT", "details": {"type": "accept_details"}}
        return None

    def hold_inside(self, around: str, state: str, deployment_id: str | None = None) -> str:
        """A flow run inside another one, as a sub-workflow is, and with a deployment a child run; its id."""
        run_id = str(uuid4())
        state_told = {"id": str(uuid4()), "type": state, "name": state.title()}
        run = {"id": run_id, "flow_id": str(uuid4()), "name": "inside", "state": state_told, "around": around}
        self.by_key[run_id] = run | {"idempotency_key": run_id, "parameters": {}, "deployment_id": deployment_id}
        return run_id

    def _filter(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        ids = (wanted.get("id") or {}).get("any_")
        keys = (wanted.get("idempotency_key") or {}).get("any_")
        runs = list(self.by_key.values())
        if inside := wanted.get("parent_flow_run_id"):
            runs = [run for run in runs if run.get("around") in inside["any_"]]
        if (wanted.get("deployment_id") or {}).get("is_null_"):
            runs = [run for run in runs if run.get("deployment_id") is None]
        if state := wanted.get("state"):
            runs = [run for run in runs if run["state"]["type"] in state["type"]["any_"]]
        return [run for run in runs if (not ids or run["id"] in ids) and (not keys or run["idempotency_key"] in keys)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the calls of one connection."""
        # The server cancels what it still serves when it closes; asyncio would report that as an error.
        ended = (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError)
        with contextlib.suppress(*ended), contextlib.closing(writer):
            while True:
                method, path, body = await _call(reader)
                await self.reachable.wait()
                answer = self.handle(method, path, body)
                if "/create_flow_run" in path and self.dice.random() < self.drop_rate:
                    self.dropped += 1
                    return
                content = json.dumps(answer).encode()
                status = b"404 Not Found" if answer is None else b"200 OK"
                head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % (status, len(content)) + content)
                await writer.drain()


async def _call(reader: asyncio.StreamReader) -> tuple[str, str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, target.partition("?")[0], json.loads(content) if content else None


@asynccontextmanager
async def standing_in(drop_rate: float = 0.0, given: StandIn | None = None) -> AsyncIterator[StandIn]:
    """The stand-in, or the given one, on a free port of loopback."""
    standin = given or StandIn(drop_rate)
    standin.reachable.set()
    server = await asyncio.start_server(standin.serve, "127.0.0.1", 0)
    standin.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api"
    async with server:
        yield standin
