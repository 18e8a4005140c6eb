"""Lists what is rolled out: one deployment per workflow on its pool, as in prefect.yaml. Calls no Prefect server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flows.compiler import Plan, compile_files
from flows.compiler.partition import home_pool, priority_of
from flows.handlers.availability import unready
from flows.handlers.registry import registry
from flows.pools import POOLS, SEGMENT_FLOW

OURS = "cairn"  # the tag of all that we deploy


@dataclass(frozen=True)
class FlowDeployment:
    """One deployment: a flow of the catalogue on a pool."""

    flow: str
    name: str
    pool: str
    queue: str
    entrypoint: str
    description: str
    version: str
    tags: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """The deployment as prefect.yaml words it."""
        return {
            "name": self.name,
            "version": self.version,
            "entrypoint": self.entrypoint,
            "description": self.description,
            "tags": list(self.tags),
            "work_pool": {"name": self.pool, "work_queue_name": self.queue},
            "enforce_parameter_schema": False,
        }


def targets(plans: Sequence[Plan]) -> Iterator[FlowDeployment]:
    """Return what is deployed: every workflow that can run, and the segments of all pools."""
    for plan in plans:
        pool = home_pool(plan)
        yield FlowDeployment(
            plan.workflow_id,
            plan.workflow_id,
            pool,
            priority_of("normal", plan.type),
            f"flows.catalog.{plan.workflow_id}",
            plan.description or plan.name,
            str(plan.version),
            (OURS, f"pool:{pool}"),
        )
    for pool in POOLS:
        description = "A stretch of a run on this pool. Started by its run, never by hand."
        yield FlowDeployment(
            SEGMENT_FLOW,
            pool,
            pool,
            priority_of("normal"),
            f"flows.catalog.{SEGMENT_FLOW}",
            description,
            "1",
            (OURS, "segment"),
        )


def runnable_plans(folder: Path, *, spare_faulty: bool = False) -> tuple[list[Plan], dict[str, list[str]]]:
    """Plans that can run, and why the others cannot. A workflow with faults stops the rollout, unless it is spared."""
    compiled = compile_files(sorted(folder.glob("*.yaml")), registry())
    faulty = {
        Path(result.file).stem: [f"{fault.file}:{fault.line}: {fault.message}" for fault in result.faults]
        for result in compiled
        if result.faults
    }
    if faulty and not spare_faulty:
        faults = [fault for faults in faulty.values() for fault in faults]
        raise SystemExit("\n".join(["Nothing was deployed; these workflows have faults:", *faults]))
    plans = [result.plan for result in compiled if result.plan is not None]
    by_id = {plan.workflow_id: plan for plan in plans}
    reasons = {plan.workflow_id: unready(plan, by_id) for plan in plans}
    runnable = [plan for plan in plans if not reasons[plan.workflow_id]]
    return runnable, faulty | {name: why for name, why in reasons.items() if why}


def prefect_yaml(plans: Sequence[Plan]) -> str:
    """The text of prefect.yaml."""
    head = "# Made by `cairn deploy --write` from workflows/*.yaml; `make check` refuses it when it is stale.\n"
    entries = [target.entry() for target in targets(plans)]
    entries[0]["build"] = [{"deployments.prefect_steps.refuse_reused_versions": {}}]
    entries[-1]["build"] = [{"deployments.prefect_steps.publish": {}}]
    content = {"name": "cairn", "pull": [], "deployments": entries}
    return head + yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True)
