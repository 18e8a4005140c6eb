"""Opens the scratch asset of an operator's own run, and refuses runs that would publish."""

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import InvalidSubmission
from domain.models import Asset, AssetVersion, Request, Revision
from domain.rules import scratch
from domain.services.operations.workflow_definitions import Definition, Definitions
from flows.compiler import Plan
from flows.handlers.registry import registry


def refuse_publishing(definition: Definition, definitions: Definitions) -> None:
    """An operator's own run may publish nothing: what lies in the external zone is the service's business alone."""
    known = registry()
    publishing = sorted(name for name in _handlers(definition, definitions) if known[name].publishes)
    if publishing:
        raise InvalidSubmission(
            f"Workflow {definition.plan.workflow_id} changes the external zone ({', '.join(publishing)}), which the "
            "service alone orders, for what is approved and public. To have an export done again, rerun its run."
        )


def open_scratch(
    session: AsyncSession, request: Request, definition: Definition, definitions: Definitions, part: list[str] | None
) -> None:
    """Give the request an asset of its own, where the run leaves files: these lie and are described by their asset."""
    handlers = _handlers(definition, definitions, part)
    known = registry()
    if not any(known[name].leaves_artifacts for name in handlers):
        return
    plan = definition.plan
    asset_id = scratch.asset_id(plan.workflow_id, request.request_id)
    place = {"asset_id": asset_id, "ordinal": scratch.ORDINAL}
    session.add(
        Asset(
            asset_id=asset_id,
            platform_id=scratch.PLATFORM,
            refs=scratch.refs(plan.workflow_id, request.request_id),
            data_type=scratch.data_type(plan.accepts, handlers),
        )
    )
    session.add(AssetVersion(**place, label=scratch.LABEL, newest_revision=scratch.REVISION))
    session.add(
        Revision(
            **place,
            revision=scratch.REVISION,
            request_id=request.request_id,
            fingerprint=request.fingerprint,
            is_listed=False,
        )
    )
    request.asset_id, request.ordinal, request.revision = asset_id, scratch.ORDINAL, scratch.REVISION


def _handlers(definition: Definition, definitions: Definitions, part: list[str] | None = None) -> frozenset[str]:
    """All handlers that the run, or this part of it, may come to, those of its sub-workflows included."""
    below = [definitions.named(name).plan.handlers() for name in definition.pins]
    return _own(definition.plan, part).union(*below)


def _own(plan: Plan, part: list[str] | None) -> frozenset[str]:
    if part is None:
        return plan.handlers()
    return frozenset(handler for name in part if (handler := plan.nodes[name].handler))
