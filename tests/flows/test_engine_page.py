"""The numbers in `docs/explanation/engine.md` are those of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from domain.rules.outcomes import RESULT_BYTES
from domain.services.runs.endings import MOST_HAND_OVERS
from domain.settings import DomainSettings
from flows.memory.large_values import TRAVELS_BYTES
from flows.runs.child_flow_runs.liveness import BELIEVED_SECONDS, LONGEST_LOOK_SECONDS, QUEUED_LOOK_SECONDS
from flows.runs.group_tally import SHOWN_ROWS
from flows.settings import WorkerSettings
from flows.tries.time_budget import GRACE_SECONDS, HANDLER_CANCEL_SECONDS, HANDLER_DRAIN_SECONDS, OUTAGE_SECONDS

PAGE = Path(__file__).resolve().parents[2] / "docs/explanation/engine.md"
WORDS = {4: "four", 5: "five", 10: "ten", 15: "fifteen", 20: "twenty", 50: "fifty"}


def default(settings: Any, name: str) -> Any:
    return settings.model_fields[name].default


# What the page says, with a place for the number, and what the code has there.
SAID = {
    r"up to (\S+) items \(`CAIRN_FAN_OUT_TASK_RUNS`\)": default(WorkerSettings, "fan_out_task_runs"),
    r"a table of the first (\S+) items that failed": SHOWN_ROWS,
    r"one run at most (\S+) go on at once": default(WorkerSettings, "tries_per_run"),
    r"of all its runs together (\S+) \(`CAIRN_TRIES_SHARED`\)": default(WorkerSettings, "tries_shared"),
    r"every (\S+) seconds while the child is queued": QUEUED_LOOK_SECONDS,
    r"and every (\S+) while it works": LONGEST_LOOK_SECONDS,
    r"the mark is believed after (\S+) s": BELIEVED_SECONDS,
    r"Values above (\S+) kB stay in run storage": TRAVELS_BYTES / 1000,
    r"goes to the domain whole, (\S+) bytes": RESULT_BYTES,
    r"see `context.stopping` and have (\S+) seconds": HANDLER_CANCEL_SECONDS,
    r"(\S+) when the worker drains": HANDLER_DRAIN_SECONDS,
    r"drains and (\S+) when it was their own time": GRACE_SECONDS,
    r"attempt that is silent for (\S+) s \(`CAIRN_ATTEMPT_LOST": default(DomainSettings, "attempt_lost_seconds"),
    r"a start has its (\S+) s": default(DomainSettings, "start_seconds"),
    r"shows `unroutable`, and after (\S+) minutes": default(DomainSettings, "unroutable_seconds") / 60,
    r"after (\S+) refusals they count as losses": MOST_HAND_OVERS,
}


@pytest.mark.parametrize("said", SAID)
def test_number_on_the_engine_page_is_the_code_s(said: str) -> None:
    text = " ".join(PAGE.read_text().split())
    found = re.findall(said, text)
    assert found, f"the page does not say {said!r} any more: mend this table with it"
    number = SAID[said]
    allowed = {f"{number:,.0f}", f"{number:.0f}", WORDS.get(int(number), "")}
    assert set(found) <= allowed


def test_outages_are_waited_out_for_an_hour_as_the_page_says() -> None:
    assert "All this for an hour (`CAIRN_OUTAGE_SECONDS`" in " ".join(PAGE.read_text().split())
    assert OUTAGE_SECONDS == 3600
