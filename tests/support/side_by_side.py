"""Which files one process takes together when tests run side by side: those that share a server, so that one is enough.

Others go by file, to whichever process is free.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadFileScheduling

STACK, SHORT_OF_PATIENCE = "a stack", "a stack with short patience"
ROLLOUTS, WORKERS = "a Prefect server for rollouts", "a Prefect server for workers"
# By file, or by test where a file has others beside it.
TOGETHER: Mapping[str, str] = {
    "tests/benchmarks/test_engine.py": STACK,
    "tests/benchmarks/test_workers.py": STACK,
    "tests/e2e/test_docs_as_written.py": STACK,
    "tests/e2e/test_events.py": STACK,
    "tests/e2e/test_history.py": STACK,
    "tests/e2e/test_operator_acts.py": STACK,
    "tests/e2e/test_operator_runs.py": STACK,
    "tests/e2e/test_path.py": STACK,
    "tests/e2e/test_prefect_settings.py": STACK,
    "tests/e2e/test_prefect_ui.py": STACK,
    "tests/e2e/test_publishing.py": STACK,
    "tests/e2e/test_submitted.py": STACK,
    "tests/e2e/test_stack.py::test_a_service_that_dies_twice_comes_back_and_stops_no_other": STACK,
    "tests/e2e/test_vectors.py": STACK,
    "tests/flows/runs/test_traces.py": STACK,
    "tests/chaos/test_engine_kills.py": SHORT_OF_PATIENCE,
    "tests/chaos/test_engine_stops.py": SHORT_OF_PATIENCE,
    "tests/chaos/test_hosts.py": SHORT_OF_PATIENCE,
    "tests/chaos/test_lost_flow_runs.py": SHORT_OF_PATIENCE,
    "tests/e2e/test_engine.py": SHORT_OF_PATIENCE,
    "tests/deployments/test_automations.py": ROLLOUTS,
    "tests/deployments/test_flow_runs.py": ROLLOUTS,
    "tests/deployments/test_one_more_pool.py": ROLLOUTS,
    "tests/deployments/test_pools.py": ROLLOUTS,
    "tests/deployments/test_process_engine.py": ROLLOUTS,
    "tests/deployments/test_rollout.py": ROLLOUTS,
    "tests/deployments/test_storage_blocks.py": ROLLOUTS,
    "tests/deployments/test_inline.py": WORKERS,
    "tests/deployments/test_stock_workers.py": WORKERS,
    "tests/deployments/test_workers.py": WORKERS,
    "tests/flows/prefect_engine/test_contract.py": WORKERS,
    "tests/flows/prefect_engine/test_limited_tags.py": WORKERS,
    "tests/flows/prefect_engine/test_task_run.py": WORKERS,
}


# What takes minutes is begun first: at the end, short files fill what is left of the time.
LONGEST = (SHORT_OF_PATIENCE, STACK, WORKERS, "tests/e2e/test_stack.py", ROLLOUTS)


def rank_of(unit: str) -> int:
    """How soon it is to be begun."""
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)


def unit_of(test: str) -> str:
    """What is handed to a process as a whole with this test."""
    file = test.partition("::")[0]
    return TOGETHER.get(test.partition("[")[0]) or TOGETHER.get(file, file)


class Together(LoadFileScheduling):  # type: ignore[misc]  # xdist carries no types
    """Hands out whole files, and those that share a server as one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
