"""How long each of the two engines that try again waits: Prefect's, for task runs, and ours, for what has none.

Chance decides how long, but no wait is longer than the policy's longest.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from prefect.client.schemas.objects import State as PrefectState

from domain.contracts.runs import RunFacts
from flows.compiler import Retry
from flows.handlers.errors import Transient
from flows.memory.ledger import Ledger
from flows.prefect_engine.node_tasks import TaskRuns, _with_own_waits
from flows.prefect_engine.task_run import NodeEngine
from flows.runs import node_executor
from flows.runs.domain_client import AttemptClient
from flows.runs.node_executor import NodeExecutor, Work
from flows.runs.run_context import RunContext
from flows.runs.stopping import Stop
from flows.storage import Zones
from tests.flows.compiler.support import plan_of
from tests.flows.compiler.test_retry import POLICIES

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
NODE = plan_of(
    """
  start: {type: start, next: only}
  only: {handler: echo, next: end}
  end: {type: end}"""
).nodes["only"]
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)


class Failing(NodeExecutor):
    async def try_through_outages(self, work: Work, number: int) -> Any:
        raise Transient("not now")


class Waiting(NodeEngine):
    """Prefect's engine, without its server: the states that it would tell are kept."""

    told: list[PrefectState[Any]]

    async def set_state(self, state: PrefectState[Any], force: bool = False) -> PrefectState[Any]:
        self.told.append(state)
        return state

    async def can_retry(self, exc_or_state: Any) -> bool:
        return True


@pytest.fixture
def executor(tmp_path: Path) -> NodeExecutor:
    zones = Zones.local(tmp_path)
    line = AttemptClient(cast("Any", None), UUID(int=1), "token")
    return Failing(RunContext(FACTS, "light", zones, line, Ledger(zones.runs, "run/m1", "a")), Stop())


@in_one_folder
@given(policy=POLICIES)
async def test_prefects_engine_waits_no_longer_than_the_longest(executor: NodeExecutor, policy: Retry) -> None:
    node = replace(NODE, retry=policy)
    task = _with_own_waits(TaskRuns(executor, node)._task, node)
    engine = Waiting(task=task, parameters={}, logger=logging.getLogger("cairn.test"))
    engine.told = []
    for _ in range(policy.max_attempts):
        assert await engine.handle_retry(Transient("not now"))
    now = datetime.now(UTC)  # every wait began before it
    ends = [state.state_details.scheduled_time for state in engine.told]
    waits = [end.timestamp() - now.timestamp() for end in ends if end is not None]
    assert len(engine.told) == policy.max_attempts
    assert max(waits, default=0) <= policy.max_delay_seconds


@in_one_folder
@given(policy=POLICIES)
async def test_our_own_tries_wait_no_longer_than_the_longest(executor: NodeExecutor, policy: Retry) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_executor, "asyncio", _Without(sleep))
        await executor.run_with_retries(Work(replace(NODE, retry=policy), "only", {}))
    assert len(waits) == policy.max_attempts
    assert max(waits) <= policy.max_delay_seconds


class _Without:
    """asyncio with another sleep."""

    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


def test_retries_of_items_that_fail_together_are_spread(executor: NodeExecutor) -> None:
    runs = TaskRuns(executor, replace(NODE, retry=Retry(max_attempts=5, max_delay_seconds=60)))
    first, second = (_with_own_waits(runs._task, runs.node).retry_delay_seconds for _ in range(2))
    assert first != second
    assert not runs._task.retry_delay_seconds
