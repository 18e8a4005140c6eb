"""An account of one blob on loopback, read by ranges, that fails as networks do: Azurite cannot be told to."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Fault = Literal["unavailable", "closes", "cut short", "zeros"]


class FlakyBlob(ThreadingHTTPServer):
    """Answers rightly so many times, then with its fault."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.content = content
        self.url = f"http://127.0.0.1:{self.server_port}/account"
        self.fault: Fault | None = None
        self.good_answers = 0

    @classmethod
    @contextlib.contextmanager
    def serving(cls, content: bytes) -> Iterator["FlakyBlob"]:
        with cls(content) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    def fail(self, fault: Fault, *, after: int) -> None:
        """From this many answers on."""
        self.fault, self.good_answers = fault, after

    def next_fault(self) -> Fault | None:
        self.good_answers -= 1
        return self.fault if self.good_answers < 0 else None

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what we want to see."""


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FlakyBlob

    def do_GET(self) -> None:
        first, last = self._range()
        body = self.server.content[first : last + 1]
        fault = self.server.next_fault()
        if fault == "closes":
            self.close_connection = True
            return
        if fault == "unavailable":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.server.content)}")
        self._describe(len(body))
        if fault == "cut short":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(bytes(len(body)) if fault == "zeros" else body)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self._describe(len(self.server.content))

    def _describe(self, length: int) -> None:
        self.send_header("Content-Length", str(length))
        self.send_header("x-ms-blob-type", "BlockBlob")
        self.send_header("ETag", '"0x1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()

    def _range(self) -> tuple[int, int]:
        last = len(self.server.content) - 1
        first, _, end = self.headers.get("x-ms-range", f"bytes=0-{last}").removeprefix("bytes=").partition("-")
        return int(first), min(int(end or last), last)

    def log_message(self, _format: str, *_args: object) -> None:
        """Nobody reads it."""
