"""What is told of a fan-out's items: how many ended how once it is given up, and which one a log line is about."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flows.compiler import Failed
from flows.handlers.errors import HandlerError
from flows.log_items import ItemNamed
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from tests.flows.compiler.support import plan_of
from tests.flows.runs.test_runner import NAME, calls, run

__all__ = ["calls"]  # a fixture

GIVEN_UP = f"""
  start: {{type: start, next: each}}
  each:
    type: fan_out
    source: "{{{{ [0] * 60 }}}}"
    max_concurrency: %d
    tolerated_failures: "10%%"
    task: {{handler: {NAME}, params: {{name: "n{{{{ index }}}}", fails: 1}}, retry: {{max_attempts: 0}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""


@pytest.mark.parametrize("at_once", [1, 5])
async def test_fan_out_that_is_given_up_begins_nothing_more_and_counts_all_that_ended(
    tmp_path: Path, calls: "Counter[str]", at_once: int
) -> None:
    ended = await run(tmp_path, plan_of(GIVEN_UP % at_once))
    failed = sum(calls.values())
    assert 7 <= failed < 7 + at_once
    assert isinstance(ended.verdict, Failed)
    expected = f"{failed} of 60 children failed, 0 succeeded, {60 - failed} not begun or cut short; each__0: "
    assert ended.verdict.error.message.startswith(expected)
    assert ended.schedule.outcomes["each"].error == ended.verdict.error


KEYED = f"""
  start: {{type: start, next: each}}
  each:
    {{type: fan_out, source: [one, two], item_key: "key-{{{{ item }}}}", next: all,
    task: {{handler: {NAME}, params: {{name: "{{{{ item }}}}", fails: 1}}, retry: {{delays_seconds: [0.01]}}}}}}
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("in_a_process", [False, True])
async def test_each_line_of_an_item_names_it_and_its_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, in_a_process: bool
) -> None:
    def watched(attempt: Try, care: Care) -> dict[str, Any]:  # a GDAL try's lines are logged by who watches it
        logging.getLogger("cairn.handler").info("counts %s", attempt.params["name"])
        if attempt.number == 0:
            raise HandlerError("failed as asked")
        care.keep({})
        return {}

    monkeypatch.setattr(caplog.handler, "filters", [ItemNamed()])
    caplog.set_level(logging.INFO, "cairn")
    if in_a_process:
        monkeypatch.setattr(one_try, "is_light", lambda _: False)
        monkeypatch.setattr(one_try, "run_try", watched)
    await run(tmp_path, plan_of(KEYED))
    for index, name in enumerate(("one", "two")):
        of_item = [line for line in caplog.messages if f"'key-{name}'" in line]
        assert [line for line in of_item if "counts" in line] == [
            f"[item {index} 'key-{name}', try {number}] counts {name}" for number in (1, 2)
        ]
        [retried] = [line for line in of_item if "another try" in line]
        assert retried.startswith(f"[item {index} 'key-{name}', try 1] Failed, another try begins in 0.0 s: failed as")
