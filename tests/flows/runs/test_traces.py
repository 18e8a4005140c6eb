"""A simulated run and the real one are the same, for random workflows; and a scheduler with a fault is found out.

Real means: the compiled flow, in a process like a worker's, against a stack's Prefect server, domain and storage.
CAIRN_TRACES sets how many workflows (100 and more in full); n and their kinds are printed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY
from flows.compiler import Plan, State
from tests.flows.compiler.support import compiled
from tests.flows.flow_host import FAULTS
from tests.flows.traces import Expected, Observed, differences, expected, failing_workflows, read_marks
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
COUNT = int(os.environ.get("CAIRN_TRACES", "16"))
LEAST_SHARE = 0.3
ROUNDS = 3
INPUTS = (2, 7)  # on both sides of what conditionals ask


def drawn(count: int) -> Mapping[str, str]:
    """So many random workflows by id, the same ones each time."""
    found: list[str] = []

    @settings(
        max_examples=4 * count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(failing_workflows())
    def draw(text: str) -> None:
        found.append(text)

    draw()
    telling = [text for text in dict.fromkeys(found) if text.count("handler: scripted") >= 2]
    ids = [f"trace_{number}" for number in range(count)]
    return {name: text.replace("id: test", f"id: {name}") for name, text in zip(ids, telling, strict=False)}


@dataclass(frozen=True)
class Laboratory:
    """The workflows, a stack that knows them, and a process that runs them."""

    plans: list[Plan]
    stack: RunningStack
    host: "subprocess.Popen[str]"

    def inputs(self, plan: Plan) -> int:
        return INPUTS[self.plans.index(plan) % len(INPUTS)]

    def run(self, plans: Sequence[Plan], fault: str | None = None) -> None:
        """Really run them, and wait until all have ended."""
        assert self.host.stdin
        assert self.host.stdout
        order = {"fault": fault, "runs": [[plan.workflow_id, self.inputs(plan)] for plan in plans]}
        self.host.stdin.write(json.dumps(order) + "\n")
        self.host.stdin.flush()
        assert self.host.stdout.readline() == "done\n", "the process that runs the flows has ended"

    def differences(self, plan: Plan) -> list[str]:
        """What the plan's last run did that its simulation does not."""
        with self.stack.operator() as http:
            page = http.get("/api/v1/runs", params={"workflow_id": plan.workflow_id, "limit": 1}).json()
            record = http.get(f"/api/v1/runs/{page['runs'][0]['run_id']}").raise_for_status().json()
        seen = Observed(record, read_marks(self.stack.folder / "storage" / "runs", record["run_id"]))
        return [f"{plan.workflow_id}: {told}" for told in differences(self.expected(plan), seen)]

    def expected(self, plan: Plan) -> Expected:
        return expected(plan, {"n": self.inputs(plan)})


@pytest.fixture(scope="module")
def laboratory(shared_stack: RunningStack) -> Iterator[Laboratory]:
    """The stack's own workers have nothing to do; their environment is what the flows run with."""
    workflows = drawn(COUNT)
    plans = [plan for text in workflows.values() if (plan := compiled(text).plan)]
    assert len(plans) == COUNT
    with published(shared_stack, workflows), flow_host(shared_stack) as host:
        yield Laboratory(plans, shared_stack, host)


@contextmanager
def published(stack: RunningStack, workflows: Mapping[str, str]) -> Iterator[None]:
    """The domain knows these too. Workers need no deployment of them: nothing is dispatched to these."""
    files = {Path(stack.settings["CAIRN_WORKFLOWS_DIR"], f"{name}.yaml"): text for name, text in workflows.items()}
    for file, text in files.items():
        file.write_text(text)
    with stack.operator() as http:
        told = http.post("/api/v1/bootstrap/deploy").raise_for_status().json()
        assert {row["workflow_id"] for row in told["workflows"]} >= workflows.keys()
        yield
    for file in files:
        file.unlink()


@contextmanager
def flow_host(stack: RunningStack) -> Iterator["subprocess.Popen[str]"]:
    """A process with the environment of the stack's worker."""
    pid = stack.facts()["services"]["worker-light"]["pid"]
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    command = tied(sys.executable, "-m", "tests.flows.flow_host")
    with (stack.folder / "logs" / "flow-host.log").open("w") as log:
        host = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        yield host
    finally:
        host.kill()
        host.communicate()


def test_simulated_and_real_traces_are_equal(laboratory: Laboratory) -> None:
    laboratory.run(laboratory.plans)
    differing = [told for plan in laboratory.plans for told in laboratory.differences(plan)]
    assert not differing, "\n".join(differing)
    wanted = [laboratory.expected(plan) for plan in laboratory.plans]
    shares = {kind: sum(map(has, wanted)) / len(wanted) for kind, has in KINDS.items()}
    told = ", ".join(f"{share:.0%} {kind}" for kind, share in shares.items())
    print(f"\nn = {len(wanted)} workflows: {told}")  # noqa: T201
    assert min(shares.values()) >= LEAST_SHARE


KINDS: dict[str, Callable[[Expected], bool]] = {
    "with a fan-out that ran": lambda wanted: any("__" in step.node_id for step in wanted.whole.trace),
    "with a failure": lambda wanted: any(step.state is State.FAILED for step in wanted.whole.trace),
    "with a conditional": lambda wanted: any(node.type == "conditional" for node in wanted.plan.nodes.values()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_scheduler_fault_changes_the_traces(laboratory: Laboratory, fault: str) -> None:
    """Only the flows' scheduler has it, not the simulator's: the comparison has to notice.

    Children that a forgotten limit lets go at once are seen only where they do meet, so each workflow has several goes.
    """
    for number, plan in enumerate(ROUNDS * laboratory.plans):
        laboratory.run([plan], fault)
        if differing := laboratory.differences(plan):
            print(f"\n{fault} found with workflow {number + 1}: {differing[0]}")  # noqa: T201
            return
    pytest.fail(f"{len(laboratory.plans)} workflows, {ROUNDS} times each, did not show {fault}")
