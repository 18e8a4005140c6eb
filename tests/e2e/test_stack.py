"""Starting, stopping and being killed: nothing is left behind, and the next start works."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.clock import until
from tests.support.cluster import open_folder
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture
def own() -> Iterator[RunningStack]:
    with open_folder("stack") as folder:
        running = RunningStack(folder)
        try:
            yield running
        finally:
            running.cairn("down", "--wipe")


def test_a_killed_stack_leaves_nothing_that_hinders_the_next(own: RunningStack) -> None:
    first = own.json("up", "--detach")
    assert {name for name, service in first["services"].items() if service["healthy"]} == {
        "postgres", "redis", "prefect", "domain", "gateway", "serving"
    }  # fmt: skip
    assert own.cairn("up", "--detach").returncode == 1  # a second one in the same folder is refused
    os.kill(own.facts()["supervisor_pid"], signal.SIGKILL)
    again = own.json("up", "--detach")
    assert again["ready_seconds"] < 200  # ten times what it usually takes: nothing was waited for in vain
    assert own.cairn("status").returncode == 0
    told = json.loads(own.cairn("doctor", "--json").stdout)["checks"]
    looked_at = {check["check"]: check["verdict"] for check in told}
    assert {looked_at[name] for name in ("stack", "domain", "prefect", "worker-gdal", "schema", "clock")} == {"ok"}
    assert {"pool light", "pool gdal"} <= looked_at.keys()
    assert own.json("down") == {"stopped": True, "wiped": False}
    assert own.processes() == []
    assert own.json("down") == {"stopped": False, "wiped": False}


@pytest.mark.parametrize(
    ("number", "at"), [(signal.SIGINT, "postgres"), (signal.SIGTERM, "stack"), (signal.SIGKILL, "domain")]
)
def test_an_interrupted_demo_leaves_no_process(own: RunningStack, number: signal.Signals, at: str) -> None:
    """Once this is ready: while the stack starts, or while the demo is at work."""
    demo = own.spawn("demo")
    until(lambda: is_ready(own, at), seconds=180)
    demo.send_signal(number)
    assert demo.wait(120) != 0
    until(lambda: not own.processes(), seconds=120)


def is_ready(stack: RunningStack, name: str) -> bool:
    """Whether the stack says so of a service, or of itself."""
    if not (stack.folder / "stack.json").exists():
        return False
    facts = stack.facts()
    said = facts["phase"] if name == "stack" else facts["services"].get(name, {}).get("state")
    return bool(said == "ready")
