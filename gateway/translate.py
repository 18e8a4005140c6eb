"""Partner vocabulary in, ours out, and back. The only module that knows how a platform words its submissions."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from domain.contracts.submissions import Progress, RequestResult, SubmissionCreate
from domain.rules.clearance import Identity
from gateway.errors import InvalidSubmission
from gateway.queries import PlatformRow, RequestRow

OURS = ("data_type", "operation", "source", "parameters", "callback_url", "priority")


def submission(
    body: Mapping[str, Any], platform: PlatformRow, caller: Identity, request_id: UUID, idempotency_key: str | None
) -> SubmissionCreate:
    """A platform's submission body as the domain understands it, or every fault of it in one refusal."""
    ref_names = [*platform.required_refs, *platform.optional_refs]
    faults = _field_faults(body, platform, ref_names)
    if faults:
        raise InvalidSubmission("; ".join(faults) + ".", faults=faults)
    try:
        return SubmissionCreate(
            request_id=request_id,
            platform_id=platform.platform_id,
            client_id=caller.client_id,
            refs={name: _text(body[name]) for name in ref_names if body.get(name) is not None},
            version_label=_text(body[platform.version_ref]),
            idempotency_key=idempotency_key,
            **{name: body[name] for name in OURS if name in body},
        )
    except ValidationError as error:
        raise _invalid(error, platform) from error


def _field_faults(body: Mapping[str, Any], platform: PlatformRow, ref_names: list[str]) -> list[str]:
    known = [*ref_names, platform.version_ref, *OURS]
    needed = [*platform.required_refs, platform.version_ref, "data_type", "operation", "source"]
    unknown = [
        f"{name!r} is not a field of a {platform.platform_id} submission (known are {', '.join(known)})"
        for name in body
        if name not in known
    ]
    missing = [f"{name!r} is missing" for name in needed if body.get(name) is None]
    return unknown + missing


def _text(value: Any) -> Any:
    """Ids may come as numbers; everything else is left for the check to refuse."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _invalid(error: ValidationError, platform: PlatformRow) -> InvalidSubmission:
    faults = []
    for fault in error.errors(include_url=False, include_input=False):
        path = [str(part) for part in fault["loc"]]
        name = {"version_label": platform.version_ref}.get(path[0], ".".join(path))
        faults.append(f"{name.removeprefix('refs.')}: {fault['msg']}")
    return InvalidSubmission("; ".join(faults) + ".", faults=faults)


def status(row: RequestRow) -> dict[str, Any]:
    """A request as its partner sees it: no run, node or flow run appears."""
    answer: dict[str, Any] = {
        "request_id": str(row.request_id),
        "status": row.status,
        "submitted_at": row.created_at.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "progress": progress(row).model_dump(),
        "result": None,
        "problem": row.problem if row.status == "failed" else None,
    }
    if row.status == "completed" and row.asset_id is not None:
        result = RequestResult.model_validate(
            {
                "asset_id": row.asset_id,
                "version": row.ordinal,
                "revision": row.revision,
                "approval": row.approval,
                "clearance": row.clearance,
                "outputs": row.outputs or {},
            }
        )
        answer["result"] = result.model_dump()
    return answer


def progress(row: RequestRow) -> Progress:
    """How far a request is; 100 % is said of completed ones only."""
    if row.status == "completed":
        percent = 100
    else:
        percent = min(99, int(100 * row.fraction / row.nodes_total)) if row.nodes_total else 0
    return Progress(percent=percent, nodes_done=row.nodes_done, nodes_total=row.nodes_total)
