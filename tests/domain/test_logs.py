"""Logs: no secret gets through, by message, fact, traceback or URL; ids of the context are on every line."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from domain.security import new_callback_secret, new_key
from domain.shared import logs

CANARY = "Zm9vYmFyYmF6cXV4c2VjcmV0"
JWT = f"eyJhbGciOiJSUzI1NiJ9.{CANARY}.{CANARY}"


@pytest.fixture
def lines() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    logger = logging.Logger("cairn.test")  # noqa: LOG001 - outside the tree: nothing else listens
    logger.addHandler(logs.handler("test", stream))
    return iter([(logger, stream)])


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://a.blob.core.windows.net/c/b.tif?sv=2024&sig={CANARY}%3D&se=2026",
        f"GET https://a.blob.core.windows.net/c/b.tif?SIG={CANARY}",
        f"/vsiaz/c/b.tif sig={CANARY} failed",
        f"https://x/y?access_token={CANARY}&z=1",
        f"postgresql://cairn_app:{CANARY}@127.0.0.1/cairn",
        f"Authorization: Bearer {CANARY}",
        f"authorization: basic {CANARY}==",
        f"{{'Authorization': 'Bearer {CANARY}'}}",
        f'{{"x-api-key": "{CANARY}"}}',
        f"X-API-Key: {CANARY}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY}==;EndpointSuffix=x",
        f'{{"password": "{CANARY}"}}',
        f"{{'attempt_token': '{CANARY}'}}",
        f"client_secret={CANARY}",
        f"token {JWT} refused",
    ],
)
def test_no_form_of_secret_reaches_the_log(lines: Iterator[tuple[logging.Logger, io.StringIO]], text: str) -> None:
    logger, stream = next(lines)
    logger.info(text)
    logger.info("said: %s", text)
    logger.info("constant", extra={"url": text, "nested": {"list": [text]}})
    logger.error("broken", exc_info=RuntimeError(text))
    written = stream.getvalue()
    assert len(written.splitlines()) == 4
    assert CANARY not in written
    assert written.count(logs.STRUCK) >= 5


def test_tokens_and_keys_of_cairn_are_redacted(lines: Iterator[tuple[logging.Logger, io.StringIO]]) -> None:
    logger, stream = next(lines)
    for secret in (new_key(), new_callback_secret()):
        logger.info("a secret: %s.", secret)
        assert secret not in stream.getvalue()
    logger.info("constant", extra={"api_key": "short", "tries": 3, "token": None})
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["api_key"], last["tries"], last["token"]) == (logs.STRUCK, 3, None)


@pytest.mark.parametrize("text", ["attempt sent", "https://example.org/a?b=c", "run 7 of design=x", "42 % done: ok"])
def test_harmless_text_is_not_redacted(text: str) -> None:
    assert logs.redact(text) == text


async def test_every_log_line_carries_the_ids_of_its_call(lines: Iterator[tuple[logging.Logger, io.StringIO]]) -> None:
    logger, stream = next(lines)
    run = "0f8fad5b-d9cb-469f-a165-70867728950e"

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        logger.info("worked", extra={"tries": 1})

    await logs.LogContext(app)({"type": "http", "path": f"/api/v1/runs/{run}/start"}, None, None)
    await logs.LogContext(app)({"type": "lifespan"}, None, None)
    with logs.bind(request_id="r"), logs.bind(run_id="s"):
        logger.info("bound")
    called, outside, bound = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (called["message"], called["run_id"], called["tries"], called["service"]) == ("worked", run, 1, "test")
    assert len(called["call_id"]) == 16
    assert "run_id" not in outside
    assert (bound["request_id"], bound["run_id"]) == ("r", "s")


SERVED = """
import logging, sys, uvicorn
from domain.shared import logs
uvicorn.Config("anything:app", access_log=sys.argv[1] == "heard")
logs.configure("test")
for name in ("uvicorn.error", "uvicorn.access"):
    print(name, logging.getLogger(name).hasHandlers())
    logging.getLogger(name).info("?token=secret")
"""


@pytest.mark.parametrize("accesses", ["heard", "silent"])
def test_access_log_stays_off_where_the_server_was_told_so(accesses: str) -> None:
    """A line for each call costs as much as some calls do: whoever does not want them must not get them after all."""
    done = subprocess.run([sys.executable, "-c", SERVED, accesses], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["uvicorn.error", "True", "uvicorn.access", str(accesses == "heard")]
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["service"] for line in said} == {"test"}
    assert [line["logger"] for line in said] == ["uvicorn.error", "uvicorn.access"][: 2 if accesses == "heard" else 1]
    assert "secret" not in done.stderr
