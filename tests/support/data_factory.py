"""A stand-in for Azure Data Factory and for the endpoint that gives a managed identity its tokens, on loopback.

There is no emulator of the one or the other. This replays answers as Azure documents them for API version 2018-06-01,
and says in every answer that it is a stand-in. It keeps runs as Data Factory does: each createRun makes another one.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

SUBSCRIPTION, GROUP, FACTORY, PIPELINE = (
    "12345678-1234-1234-1234-123456789abc",
    "exampleGroup",
    "exampleFactory",
    "copy-out",
)
IDENTITY_HEADER = "identity-header-secret"
BASE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.DataFactory/factories/{FACTORY}"
NOT_FOUND = {
    "error": {
        "code": "PipelineNotFound",
        "message": f"The Pipeline with name '{PIPELINE}' does not exist.",
        "target": None,
    }
}
RUN_NOT_FOUND = {"error": {"code": "PipelineRunNotFound", "message": "The pipeline run was not found.", "target": None}}
BUSY = {"error": {"code": "TooManyRequests", "message": "Too many requests were sent to the factory."}}
FORBIDDEN = {
    "error": {"code": "AuthorizationFailed", "message": "The client does not have authorization to perform action."}
}


@dataclass
class StandIn:
    """What it was asked, what it is to answer, and the runs that it keeps."""

    url: str = ""
    statuses: list[str] = field(default_factory=lambda: ["Queued", "InProgress", "Succeeded"])
    refusals: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    token: str = field(default_factory=lambda: f"token-{uuid4().hex}")
    token_status: int = 200
    calls: list[str] = field(default_factory=list)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    hides_new_runs: int = 0
    on_start: Callable[[dict[str, Any]], None] | None = None
    on_cancel: Callable[[], None] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a worker is told: the factory, and where App Service gives its identity a token."""
        return {
            "CAIRN_ADF_SUBSCRIPTION_ID": SUBSCRIPTION,
            "CAIRN_ADF_RESOURCE_GROUP": GROUP,
            "CAIRN_ADF_FACTORY": FACTORY,
            "CAIRN_ADF_ENDPOINT": self.url,
            "IDENTITY_ENDPOINT": f"{self.url}/msi/token",
            "IDENTITY_HEADER": IDENTITY_HEADER,
        }

    def refuse(self, call: str, status: int, body: Any = None, times: int = 1) -> None:
        """Answer so the next times that this is asked."""
        self.refusals.setdefault(call, []).extend([(status, body)] * times)

    def answer(self, call: str, path: str, body: Any) -> tuple[int, Any]:
        self.calls.append(call)
        if self.refusals.get(call):
            return self.refusals[call].pop(0)
        match call:
            case "start":
                return self._start(body)
            case "query":
                return self._query(body)
            case "cancel":
                self.runs[path.split("/")[-2]]["left"] = ["Canceling", "Cancelled"]
                if self.on_cancel:
                    self.on_cancel()
                return 200, None
            case _:
                return self._run(path.rpartition("/")[2])

    def _start(self, parameters: Any) -> tuple[int, Any]:
        run_id = str(uuid4())
        self.runs[run_id] = {
            "parameters": {name: _stored(value) for name, value in parameters.items()},
            "left": [*self.statuses],
        }
        if self.on_start:
            self.on_start(parameters)
        return 200, {"runId": run_id}

    def _run(self, run_id: str) -> tuple[int, Any]:
        if run_id not in self.runs:
            return 404, RUN_NOT_FOUND
        left = self.runs[run_id]["left"]
        return 200, self._described(run_id, left.pop(0) if len(left) > 1 else left[0])

    def _query(self, body: Any) -> tuple[int, Any]:
        assert {"lastUpdatedAfter", "lastUpdatedBefore"} <= body.keys()
        assert body["filters"] == [{"operand": "PipelineName", "operator": "Equals", "values": [PIPELINE]}]
        if self.hides_new_runs:
            self.hides_new_runs -= 1
            return 200, {"value": []}
        described = [self._described(run_id, run["left"][0]) for run_id, run in self.runs.items()]
        page = int(body.get("continuationToken", 0))
        more = {"continuationToken": str(page + 1)} if page + 1 < len(described) else {}
        return 200, {"value": described[page : page + 1], **more}

    def _described(self, run_id: str, status: str) -> dict[str, Any]:
        """As in the examples of PipelineRuns_Get and PipelineRuns_QueryByFactory."""
        return {
            "runId": run_id,
            "pipelineName": PIPELINE,
            "parameters": self.runs[run_id]["parameters"],
            "invokedBy": {"id": "80a01654a9d34ad18b3fcac5d5d76b67", "name": "Manual"},
            "runStart": "2018-06-16T00:37:44.6257014Z",
            "runEnd": None,
            "durationInMs": None,
            "status": status,
            "message": "Operation on target CopyFiles failed: ErrorCode=UserErrorFileNotFound"
            if status == "Failed"
            else "",
            "lastUpdated": "2018-06-16T00:38:12.7314495Z",
            "annotations": [],
        }


def _stored(value: Any) -> str:
    """Data Factory gives parameters back as text."""
    return value if isinstance(value, str) else json.dumps(value)


class _Handler(BaseHTTPRequestHandler):
    server_version = "stand-in-for-data-factory"
    protocol_version = "HTTP/1.1"
    stand_in: StandIn

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        status, told = self._token(url.query) if url.path == "/msi/token" else self._factory(url.path, url.query, body)
        content = b"" if told is None else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def _token(self, query: str) -> tuple[int, Any]:
        """As App Service answers: to who shows the header that only its own processes know."""
        asked = parse_qs(query)
        assert self.headers["X-IDENTITY-HEADER"] == IDENTITY_HEADER
        assert asked["resource"] == [self.stand_in.url]
        if self.stand_in.token_status != 200:
            return self.stand_in.token_status, {"statusCode": 400, "message": "No identity was found."}
        expires = str(int(time.time()) + 3600)
        resource = asked["resource"][0]
        return 200, {
            "access_token": self.stand_in.token,
            "expires_on": expires,
            "resource": resource,
            "token_type": "Bearer",
        }

    def _factory(self, path: str, query: str, body: Any) -> tuple[int, Any]:
        if self.headers["Authorization"] != f"Bearer {self.stand_in.token}":
            return 401, {"error": {"code": "InvalidAuthenticationToken", "message": "The access token is invalid."}}
        if parse_qs(query).get("api-version") != ["2018-06-01"]:
            return 400, {"error": {"code": "MissingApiVersionParameter", "message": "api-version is required."}}
        known = {
            "start": ("POST", rf"{BASE}/pipelines/{PIPELINE}/createRun"),
            "query": ("POST", rf"{BASE}/queryPipelineRuns"),
            "cancel": ("POST", rf"{BASE}/pipelineruns/[0-9a-f-]+/cancel"),
            "run": ("GET", rf"{BASE}/pipelineruns/[0-9a-f-]+"),
        }
        for call, (method, pattern) in known.items():
            if method == self.command and re.fullmatch(pattern, path):
                return self.stand_in.answer(call, path, body)
        return 404, NOT_FOUND

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class named it
        """Say nothing."""


@contextmanager
def data_factory_stand_in() -> Iterator[StandIn]:
    """A running stand-in, gone afterwards."""
    stand_in = StandIn()
    handler = type("Handler", (_Handler,), {"stand_in": stand_in})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
