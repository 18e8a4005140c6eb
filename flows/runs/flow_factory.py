"""Plan to Prefect flow: name, version and typed signature for operators; the body that domain runs go through."""

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Annotated, Any
from uuid import UUID

from prefect import Flow
from prefect.client.schemas.objects import State as PrefectState
from prefect.utilities.callables import parameter_schema
from pydantic import WithJsonSchema

from flows.compiler import Plan
from flows.compiler.inputs import Input
from flows.runs.claim import connect_to_domain
from flows.runs.domain_client import AttemptClient
from flows.runs.operators_run import register_flow_run
from flows.runs.parent import run_attempt
from flows.runs.segment import run_segment

OURS = ("run_id", "attempt_token")


def build_flow(plan: Plan) -> Flow[..., Any]:
    """The flow of one workflow. Its form in Prefect's UI is made of the workflow's inputs."""

    async def run_workflow(
        run_id: str | None = None, attempt_token: str | None = None, **inputs: Any
    ) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await connect_to_domain(stack)
            if run_id is not None and attempt_token is not None:
                return await run_attempt(AttemptClient(http, UUID(run_id), attempt_token), settings)
            given = {name: value for name, value in inputs.items() if value is not None}
            line = await register_flow_run(http, plan.workflow_id, given)
            return await run_attempt(line, settings) if isinstance(line, AttemptClient) else line

    run_workflow.__name__ = run_workflow.__qualname__ = plan.workflow_id
    run_workflow.__signature__ = _call_signature(plan)  # type: ignore[attr-defined]
    run_workflow.__annotations__ = {}
    run_workflow.__doc__ = _docstring(plan)
    built = _flow(run_workflow, plan.workflow_id, str(plan.version), plan.description or plan.name)
    # Prefect calls the function by its own signature, and makes the form, also in `prefect deploy`, by the flow's.
    built.__signature__ = _form_signature(plan)  # type: ignore[attr-defined]
    built.parameters = parameter_schema(built)
    return built


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


def _call_signature(plan: Plan) -> inspect.Signature:
    """Every input is optional: runs of the domain bring none of them, but the names that are ours."""
    names = dict.fromkeys((*plan.inputs, *OURS))
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names])


def _form_signature(plan: Plan) -> inspect.Signature:
    """The inputs as an operator fills them in: the required ones first, and no name that is ours."""
    fields = sorted(plan.inputs.items(), key=lambda field: not field[1].required)
    return inspect.Signature([_form_field(name, spec) for name, spec in fields])


def _form_field(name: str, spec: Input) -> inspect.Parameter:
    """One field with the type and the bounds that the domain checks. What may be left out may be empty."""
    schema = {key: value for key, value in spec.schema().items() if key not in {"default", "description"}}
    kind: Any = Annotated[Any, WithJsonSchema(schema)]
    default = spec.default if spec.has_default else None
    is_emptiable = not spec.required and default is None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if spec.required else default,
        annotation=kind | None if is_emptiable else kind,
    )


def _docstring(plan: Plan) -> str:
    """Where Prefect takes the descriptions of a form's fields from."""
    fields = {name: spec.description or name for name, spec in plan.inputs.items()}
    lines = [f"    {name}: {' '.join(text.split())}" for name, text in fields.items()]
    return "\n".join([plan.description or plan.name, "", "Args:", *lines])
