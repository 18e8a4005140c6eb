"""What Prefect does by itself, tried on a real server: silence makes a flow run of ours suspect, nothing else does."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from deployments.automations import HEARTBEAT, HEARTBEAT_SECONDS, SILENT_SECONDS, silent_flow_runs
from tests.support.prefect_server import PrefectServer

SHORTEST_SECONDS = 10  # that Prefect accepts
PATIENCE_SECONDS = 180


def test_silence_is_three_heartbeats() -> None:
    assert SILENT_SECONDS >= 3 * HEARTBEAT_SECONDS


def test_suspicion_only_marks() -> None:
    """It neither cancels, deletes nor starts anything, and forces nothing."""
    (action,) = silent_flow_runs().actions
    assert (action.type, getattr(action, "state", None), getattr(action, "force", None)) == (
        "change-flow-run-state", "CRASHED", False,
    )  # fmt: skip


@pytest.fixture
def prefect(prefect_server: PrefectServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=prefect_server.api, timeout=30) as client:
        wanted = silent_flow_runs(SHORTEST_SECONDS).model_copy(update={"name": "short-tempered"})
        made = client.post("/automations/", json=wanted.model_dump(mode="json")).raise_for_status().json()
        yield client
        client.delete(f"/automations/{made['id']}").raise_for_status()


def running(prefect: httpx.Client, *tags: str) -> str:
    flow = prefect.post("/flows/", json={"name": "silent"}).json()
    run = prefect.post("/flow_runs/", json={"flow_id": flow["id"], "tags": list(tags), "state": {"type": "RUNNING"}})
    return str(run.raise_for_status().json()["id"])


def tell(prefect: httpx.Client, run: str, event: str, *tags: str) -> None:
    """An event as the engine emits it."""
    related = [{"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"} for tag in tags]
    body = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": event,
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
        "related": related,
    }
    prefect.post("/events", json=[body]).raise_for_status()


def state(prefect: httpx.Client, run: str) -> dict[str, Any]:
    found: dict[str, Any] = prefect.get(f"/flow_runs/{run}").json()["state"]
    return found


def test_a_silent_run_is_marked_and_no_other(prefect: httpx.Client) -> None:
    silent, alive, theirs = running(prefect, "cairn"), running(prefect, "cairn"), running(prefect, "other")
    ended = running(prefect, "cairn")
    for run, tag in ((silent, "cairn"), (alive, "cairn"), (theirs, "other"), (ended, "cairn")):
        tell(prefect, run, HEARTBEAT, tag)
    time.sleep(1)  # events that come together may be taken in another order
    tell(prefect, ended, "prefect.flow-run.Superseded", "cairn")  # a name of our own for a final state
    deadline = time.monotonic() + PATIENCE_SECONDS
    while state(prefect, silent)["type"] != "CRASHED":
        assert time.monotonic() < deadline, "the silent run was never suspected"
        tell(prefect, alive, HEARTBEAT, "cairn")
        time.sleep(1)
    assert "The domain decides" in state(prefect, silent)["message"]
    for run in (alive, theirs, ended):
        assert state(prefect, run)["type"] == "RUNNING"
