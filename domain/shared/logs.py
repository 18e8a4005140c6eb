"""Logging of every service: JSON lines, ids bound by context, secrets struck out. The standard library only.

It lies beside the contracts, not among them: they are wire models and configure nothing. The gateway may import it,
because a second copy of these patterns would be a second chance to leak.
"""

import contextlib
import json
import logging
import re
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

STRUCK = "[redacted]"
QUIET = ("httpx", "httpcore", "azure", "alembic")  # at INFO they log full URLs, signatures included, or chatter
UVICORNS = ("uvicorn", "uvicorn.error", "uvicorn.access")  # it brings handlers of its own, which redact nothing
PLAIN_ATTRIBUTES = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "color_message",
}
SENSITIVE_NAME = re.compile(r"(?i)(authorization|api[_-]?key|secret|password|passwd|token|credential|cookie|^sig$)")
UP_TO_ITS_END = r"(?!\[redacted\])[^\s\"'&,;}\])\\]+"
PATTERNS = (
    # SAS and other signatures, and credentials in queries
    (re.compile(rf"(?i)([?&](?:sig|signature|token|access_token|api_key|key|secret|password)=){UP_TO_ITS_END}"), r"\1"),
    (re.compile(rf"(?i)\b(sig=){UP_TO_ITS_END}"), r"\1"),
    # what stands before the @ of a URL's host
    (re.compile(r"(://)[^/\s@\"']+(?=@)"), r"\1"),
    # Authorization: Bearer …, X-API-Key: …, AccountKey=…, "password": "…"
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[\w.~+/=-]{4,}"), r"\1"),
    (
        re.compile(
            r"(?i)((?:x-api-key|api[_-]?key|accountkey|sharedaccesskey|password|client_secret|attempt_token)"
            rf"[\"'\\]*\s*[:=]\s*[\"'\\]*){UP_TO_ITS_END}"
        ),
        r"\1",
    ),
    # secrets that are known by their own form: our keys, callback secrets, JWTs
    (re.compile(r"\b(cairn_[0-9a-f]{8}\.)[\w-]{30,}"), r"\1"),
    (re.compile(r"\b()cairn_[\w-]{30,}"), r"\1"),
    (re.compile(r"\b()whsec_[\w+/=]+"), r"\1"),
    (re.compile(r"\b()eyJ[\w-]{5,}\.[\w-]+\.[\w-]*"), r"\1"),
)

_bound: ContextVar[dict[str, str] | None] = ContextVar("cairn_log_context", default=None)


@contextlib.contextmanager
def bind(**ids: str) -> Iterator[None]:
    """Add these ids to whatever is logged inside, also by code that knows nothing of them."""
    token = _bound.set({**(_bound.get() or {}), **ids})
    try:
        yield
    finally:
        _bound.reset(token)


def redact(text: str) -> str:
    """Return the text without secrets that its readers could use."""
    for pattern, kept in PATTERNS:
        text = pattern.sub(kept + STRUCK, text)
    return text


def redact_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts without secrets, whether their names or their words give them away."""
    return {str(name): _clean(str(name), value) for name, value in facts.items()}


class MessageRedaction(logging.Filter):
    """Rewrites a record before any formatter sees it: message and traceback. For handlers that write no facts."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        return True


class Redaction(MessageRedaction):
    """Redacts message, traceback and the facts beside the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in record.__dict__.items():
            if name not in PLAIN_ATTRIBUTES:
                record.__dict__[name] = _clean(name, value)
        return super().filter(record)


def _clean(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if SENSITIVE_NAME.search(name):
        return STRUCK
    if isinstance(value, dict):
        return {str(key): _clean(str(key), entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean("", entry) for entry in value]
    return redact(str(value))


class JsonLines(logging.Formatter):
    """One JSON object a line: a constant message, and the facts beside it."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "logger": record.name,
            "message": record.getMessage(),
            **(_bound.get() or {}),
            **{name: value for name, value in record.__dict__.items() if name not in PLAIN_ATTRIBUTES},
        }
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, default=str)


def handler(service: str, stream: Any = None) -> logging.Handler:
    """Return the handler that redacts every record of a service and then writes it."""
    made = logging.StreamHandler(stream or sys.stderr)
    made.addFilter(Redaction())
    made.setFormatter(JsonLines(service))
    return made


def configure(service: str, level: int = logging.INFO) -> None:
    """Configure this process's logging. Called where a process begins, never by an imported module."""
    logging.basicConfig(level=level, handlers=[handler(service)], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in UVICORNS:
        server = logging.getLogger(name)
        server.propagate = bool(server.handlers) or server.propagate  # what it was told to keep quiet about stays quiet
        server.handlers.clear()


Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
IDS_IN_PATH = re.compile(r"/(request|run|callback)s/([0-9a-fA-F-]{36})\b")


class LogContext:
    """ASGI: binds an id to each HTTP call, and the request or run that its path names."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        ids = {f"{kind}_id": value.lower() for kind, value in IDS_IN_PATH.findall(scope["path"])}
        with bind(call_id=uuid.uuid4().hex[:16], **ids):
            await self.app(scope, receive, send)
