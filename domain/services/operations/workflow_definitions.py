"""The workflows this service knows: compiled from a folder, published, and looked up by what they accept.

What is published never changes. A file that has faults, or other content under a published version, is refused: its
workflow stays as it was published, and every other one is taken as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from domain.errors import NoWorkflow
from domain.repositories.processes import Processes
from domain.repositories.runs import Runs
from domain.rules.offers import offers
from domain.rules.workflows import reused_version
from flows.compiler import Fault, Plan, RequestPlan, compile_files
from flows.compiler.partition import work_pool
from flows.handlers.availability import unready
from flows.handlers.registry import registry
from flows.pools import POOLS

GONE = "its file is gone, and the service cannot do without it"
Pins = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Definition:
    """A workflow with the pinned definitions of its sub-workflows at any depth, and the pools where they work."""

    plan: Plan
    source: str
    pins: Pins = field(default_factory=dict)
    work_pool: str = POOLS.home


@dataclass(frozen=True)
class Definitions:
    """The definition of every workflow that runs now, and why other files are refused, by workflow."""

    by_id: dict[str, Definition]
    plans: tuple[RequestPlan, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Definitions":
        """Compile every workflow of the folder. One with faults is refused, with the first of them."""
        compiled = compile_files([*sorted(folder.glob("*.yaml")), *sorted(folder.glob("plans/*.yaml"))], registry())
        ready = {
            result.plan.workflow_id: Definition(result.plan, result.text)
            for result in compiled
            if result.plan is not None and not unready(result.plan)
        }
        faults = {Path(result.file).stem: _line(result.faults[0]) for result in compiled if result.faults}
        return cls(ready, tuple(result.request_plan for result in compiled if result.request_plan), faults)

    def lacking(self, needed: Iterable[str]) -> "Definitions":
        """Return the definitions with each needed workflow that is missing marked as refused."""
        missing = {name: GONE for name in needed if name not in self.by_id and name not in self.refused}
        return replace(self, refused={**self.refused, **missing})

    def accepting(self, data_type: str, operation: str) -> Plan | RequestPlan:
        """The workflow or plan that serves such a submission, or a refusal that lists what would be served."""
        matrix = {pair: plan for plan in self.served() for pair in plan.accepted_pairs()}
        if (data_type, operation) in matrix:
            return matrix[data_type, operation]
        served = ", ".join(sorted("/".join(pair) for pair in matrix)) or "nothing"
        raise NoWorkflow(f"No workflow accepts {data_type}/{operation}. Accepted are: {served}.")

    def served(self) -> list[Plan | RequestPlan]:
        """Every workflow, and every plan of several."""
        return [*(definition.plan for definition in self.by_id.values()), *self.plans]

    def named(self, workflow_id: str) -> Definition:
        """The workflow of this name, or a refusal that lists the known ones."""
        try:
            return self.by_id[workflow_id]
        except KeyError:
            known = ", ".join(sorted(self.by_id))
            why = f" Its file is refused: {self.refused[workflow_id]}" if workflow_id in self.refused else ""
            raise NoWorkflow(f"There is no workflow {workflow_id!r}. Known are: {known}.{why}") from None

    async def publish(self, runs: Runs, processes: Processes, before: "Definitions | None" = None) -> "Definitions":
        """Publish the definitions; return those that run from now on, since runs rely on what they pinned.

        What is refused stays as it was published: as `before`, or else the newest. What partners may have done is what
        is served now, and nothing else.
        """
        kept, refused = dict(self.by_id), dict(self.refused)
        rows = {(name, str(definition.plan.version)): _row(definition) for name, definition in self.by_id.items()}
        digests = await runs.publish(rows)
        for name, definition in self.by_id.items():
            if digests[name] != definition.plan.digest:
                refused[name] = reused_version(name, str(definition.plan.version))
        for name in refused:
            kept.pop(name, None)
            if published := await runs.published(name, _version(self, name) or _version(before, name)):
                kept[name] = Definition(Plan.from_json(published.plan), published.source)
        settled = self._with_pins(kept, refused, before)
        await processes.replace(offers(settled.served()))
        return settled

    def _with_pins(
        self, workflows: dict[str, Definition], refused: dict[str, str], before: "Definitions | None"
    ) -> "Definitions":
        """Return these workflows with their pins, and the plans whose workflows are all ready."""
        known = pinned(workflows)
        plans_of = {name: definition.plan for name, definition in workflows.items()}
        for name in workflows.keys() - known.keys():
            if culprits := sorted(_sub_workflows_at_any_depth(plans_of[name], plans_of) & refused.keys()):
                refused = {**refused, name: f"it runs {', '.join(culprits)}, whose file is refused"}
        earlier = [plan for plan in (before.plans if before else ()) if plan.plan_id in refused]
        plans = [*self.plans, *earlier]
        whole = tuple(plan for plan in plans if known.keys() >= {step.workflow for step in plan.steps})
        return Definitions(known, whole, refused)


def _row(definition: Definition) -> dict[str, Any]:
    plan = definition.plan
    return {
        "workflow_id": plan.workflow_id,
        "version": str(plan.version),
        "digest": plan.digest,
        "source": definition.source,
        "plan": plan.to_json(),
    }


def _version(known: Definitions | None, name: str) -> str | None:
    definition = known.by_id.get(name) if known else None
    return str(definition.plan.version) if definition else None


def pinned(ready: Mapping[str, Definition]) -> dict[str, Definition]:
    """Return each workflow with its sub-workflows' definitions, leaving out those with one that is not ready."""
    plans = {name: definition.plan for name, definition in ready.items()}
    below = {name: _sub_workflows_at_any_depth(plan, plans) for name, plan in plans.items()}
    return {
        name: replace(
            definition,
            pins={sub: _pin(plans[sub]) for sub in sorted(below[name])},
            work_pool=work_pool([definition.plan, *(plans[sub] for sub in below[name])]),
        )
        for name, definition in ready.items()
        if below[name] <= plans.keys()
    }


def _sub_workflows_at_any_depth(plan: Plan, plans: Mapping[str, Plan]) -> set[str]:
    """Return the ids of all workflows that a run of this plan may reach, at any depth."""
    found: set[str] = set()
    wanted = set(plan.sub_workflows)
    while wanted:
        found |= wanted
        wanted = {sub for name in wanted & plans.keys() for sub in plans[name].sub_workflows} - found
    return found


def _pin(plan: Plan) -> dict[str, str]:
    return {"version": str(plan.version), "digest": plan.digest}


def _line(fault: Fault) -> str:
    return f"{fault.file}:{fault.line}:{fault.column}: {fault.code}: {fault.message}"
