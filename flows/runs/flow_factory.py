"""Plan to Prefect flow: name, version and typed signature for operators; the body that domain runs go through."""

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Literal
from uuid import UUID

from prefect import Flow
from prefect.client.schemas.objects import State as PrefectState

from domain.contracts.runs import RunRegister
from flows.compiler import Plan
from flows.runs.claim import connect_to_domain
from flows.runs.domain_client import AttemptClient, register
from flows.runs.parent import run_attempt
from flows.runs.segment import run_segment
from flows.runs.stop_signals import flow_run_id

PYTHON_TYPES: dict[str, Any] = {
    "string": str,
    "uri": str,
    "datetime": str,
    "date": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "bbox": list[float],
    "object": dict[str, Any],
}
OURS = ("run_id", "attempt_token")


def build_flow(plan: Plan) -> Flow[..., Any]:
    """The flow of one workflow. Its form in Prefect's UI comes from the workflow's inputs."""

    async def run_workflow(
        run_id: str | None = None, attempt_token: str | None = None, **inputs: Any
    ) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await connect_to_domain(stack)
            if run_id is None or attempt_token is None:
                given = {name: value for name, value in inputs.items() if value is not None}
                message = RunRegister(workflow_id=plan.workflow_id, inputs=given, flow_run_id=flow_run_id())
                registered = await register(http, message)
                run_id, attempt_token = str(registered.run_id), registered.attempt_token
            line = AttemptClient(http, UUID(run_id), attempt_token)
            return await run_attempt(line, settings)

    run_workflow.__name__ = run_workflow.__qualname__ = plan.workflow_id
    signature = _signature(plan)
    run_workflow.__signature__ = signature  # type: ignore[attr-defined]
    run_workflow.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    run_workflow.__doc__ = _docstring(plan)
    return _flow(run_workflow, plan.workflow_id, str(plan.version), plan.description or plan.name)


def build_bare_flow(workflow_id: str) -> Flow[..., Any]:
    """The flow of a workflow whose file cannot be read now, for runs of the domain: they bring their plan along."""

    async def run_workflow(run_id: str, attempt_token: str) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await connect_to_domain(stack)
            return await run_attempt(AttemptClient(http, UUID(run_id), attempt_token), settings)

    return _flow(run_workflow, workflow_id, None, "Its file has faults; runs go by what was published.")


def build_segment_flow() -> Flow[..., Any]:
    """The flow that executes a stretch of any plan on the pool it is deployed to."""

    async def segment(run_id: str, attempt_token: str, segment: int) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await connect_to_domain(stack)
            return await run_segment(AttemptClient(http, UUID(run_id), attempt_token, segment), settings, segment)

    return _flow(segment, "segment", None, "A stretch of a run on another pool. Started by its run, never by hand.")


def _flow(
    body: Callable[..., Coroutine[Any, Any, Any]], name: str, version: str | None, description: str
) -> Flow[..., Any]:
    return Flow(
        fn=body,
        name=name,
        version=version,
        description=description,
        validate_parameters=False,  # the domain checks inputs against the workflow's own schema
        persist_result=False,
        log_prints=False,
    )


def _signature(plan: Plan) -> inspect.Signature:
    """Every input as an optional keyword: domain runs bring none of them."""
    kinds = {name: (_python_type(spec), spec.default) for name, spec in plan.inputs.items()}
    kinds |= dict.fromkeys(OURS, (str, None))
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind | None)
            for name, (kind, default) in kinds.items()
        ]
    )


def _docstring(plan: Plan) -> str:
    """Where Prefect takes the descriptions of a form's fields from."""
    fields = {name: spec.description or name for name, spec in plan.inputs.items()}
    fields |= dict.fromkeys(OURS, "Set by the platform; leave empty.")
    lines = [f"    {name}: {' '.join(text.split())}" for name, text in fields.items()]
    return "\n".join([plan.description or plan.name, "", "Args:", *lines])


def _python_type(spec: Any) -> Any:
    return Literal[tuple(spec.enum)] if spec.enum else PYTHON_TYPES[spec.type]
