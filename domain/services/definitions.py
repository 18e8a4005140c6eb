"""The workflows this service knows: compiled from its image at start, published, and looked up by what they accept."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from domain.errors import NoWorkflow
from domain.models import WorkflowDefinition
from domain.repositories.processes import Processes
from domain.repositories.runs import Runs
from domain.rules.offers import offers
from flows.compiler import Fault, Plan, RequestPlan, compile_files
from flows.handlers.registry import registry
from flows.readiness import unready


class BrokenDefinitions(RuntimeError):
    """A workflow file has faults: the service refuses to start on it."""


class ChangedDefinition(RuntimeError):
    """A published (workflow, version) has other content now."""


Pins = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Definition:
    """A workflow, and which definitions its sub-workflows have in the same image, theirs included."""

    plan: Plan
    source: str
    pins: Pins = field(default_factory=dict)


@dataclass(frozen=True)
class Definitions:
    """The newest definition of every workflow of this image."""

    by_id: dict[str, Definition]
    plans: tuple[RequestPlan, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> "Definitions":
        """Compile every workflow of the folder, or refuse with every fault of every file."""
        compiled = compile_files([*sorted(folder.glob("*.yaml")), *sorted(folder.glob("plans/*.yaml"))], registry())
        faults = [fault for result in compiled for fault in result.faults]
        if faults:
            raise BrokenDefinitions("\n".join(_line(fault) for fault in faults))
        ready = {
            result.plan.workflow_id: Definition(result.plan, result.text)
            for result in compiled
            if result.plan is not None and not unready(result.plan)
        }
        workflows = pinned(ready)
        plans = [result.request_plan for result in compiled if result.request_plan is not None]
        return cls(
            workflows, tuple(plan for plan in plans if workflows.keys() >= {step.workflow for step in plan.steps})
        )

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
            raise NoWorkflow(f"There is no workflow {workflow_id!r}. Known are: {known}.") from None

    async def publish(self, runs: Runs, processes: Processes) -> None:
        """Make the definitions known, refusing other content under a known version: runs rely on what they pinned.

        What partners may have done is what this image serves, and nothing else.
        """
        for definition in self.by_id.values():
            plan = definition.plan
            kept = await runs.publish(
                WorkflowDefinition(
                    workflow_id=plan.workflow_id,
                    version=str(plan.version),
                    digest=plan.digest,
                    source=definition.source,
                    plan=plan.to_json(),
                )
            )
            if kept != plan.digest:
                raise ChangedDefinition(
                    f"Workflow {plan.workflow_id} version {plan.version} is published with other content. "
                    f"Give the changed file a new version."
                )
        await processes.replace(offers(self.served()))


def pinned(ready: Mapping[str, Definition]) -> dict[str, Definition]:
    """Each workflow with its sub-workflows' definitions; without those of which a sub-workflow is not ready."""
    plans = {name: definition.plan for name, definition in ready.items()}
    below = {name: _below(plan, plans) for name, plan in plans.items()}
    return {
        name: replace(definition, pins={sub: _pin(plans[sub]) for sub in sorted(below[name])})
        for name, definition in ready.items()
        if below[name] <= plans.keys()
    }


def _below(plan: Plan, plans: Mapping[str, Plan]) -> set[str]:
    """The ids of all workflows that a run of this plan may come to, at any depth."""
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
