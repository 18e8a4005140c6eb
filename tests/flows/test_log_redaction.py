"""No signature reaches Prefect: neither by a log line nor by the words of an error."""

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from domain.contracts.runs import RunFacts
from flows.handlers.errors import HandlerError, InvalidInput, Transient
from flows.log_redaction import strike_from_logs, without_secrets
from flows.storage import Zones
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from tests.support import probes

URL = "https://a.blob.core.windows.net/c/b.tif?sp=r&sig=cAnArY%2B0123%3D"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler of Prefect's own writes. Those that Prefect itself may have put there wait for a server."""
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("prefect.flow_runs")
    others, logger.handlers = logger.handlers, [handler]
    yield stream
    logger.handlers = others


def test_lines_and_tracebacks_are_written_without_signatures(written: io.StringIO) -> None:
    logger = logging.getLogger("prefect.flow_runs")
    logger.warning("before: %s", URL)
    assert "cAnArY" in written.getvalue()
    strike_from_logs()
    strike_from_logs()
    written.truncate(0)
    logger.warning("opened %s", URL)
    logger.error("failed", exc_info=OSError(f"no answer from {URL}"))
    assert "cAnArY" not in written.getvalue()
    assert written.getvalue().count("[redacted]") == 2


@pytest.mark.parametrize("kind", [InvalidInput, Transient, HandlerError])
def test_redacted_error_keeps_its_type_and_code(kind: type[HandlerError]) -> None:
    clean = kind("The file is damaged.")
    assert without_secrets(clean) is clean
    told = without_secrets(kind(f"{URL} is damaged."))
    assert isinstance(told, HandlerError)
    assert (told.code, told.retryable, told.partner_may_read) == (kind.code, kind.retryable, kind.partner_may_read)
    assert str(told) == "https://a.blob.core.windows.net/c/b.tif?sp=r&sig=[redacted] is damaged."


def test_a_light_handler_s_error_holds_no_signature(tmp_path: Path) -> None:
    facts = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
    one = Try("n", "probe.light", {"what": "raise", "name": URL}, facts, 30)
    with probes.declared(), pytest.raises(HandlerError, match=r"OSError: cannot open .*sig=\[redacted\]$") as fault:
        one_try.run_try(one, Care(Zones.local(tmp_path), Event(), lambda *_: None))
    assert fault.value.__cause__ is None
