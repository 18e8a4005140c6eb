"""The audit, for operators: read it, verify it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from domain.api.dependencies import ServiceState, Session, allowed
from domain.contracts.audit import AuditPage, AuditRow, AuditVerdict
from domain.repositories.audit import Audit
from domain.rules.audit import SEAL_TEXT
from domain.services.operations.audit import Verification

router = APIRouter(prefix="/api/v1/audit", tags=["operators"], dependencies=[Depends(allowed("operator", "admin"))])


@router.get("")
async def read_audit(
    session: Session,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    action: str | None = None,
    subject: Annotated[str | None, Query(description="The subject or the beginning of it, as in asset/0f3a")] = None,
) -> AuditPage:
    """Who did what, in the order it was done."""
    rows = await Audit(session).entries(after, limit, action, subject)
    last = rows[-1].audit_id if len(rows) == limit else None
    return AuditPage(entries=[AuditRow.model_validate(row) for row in rows], next_after=last)


@router.get("/verify")
async def verify_audit(
    session: Session,
    state: ServiceState,
    sequence: Annotated[int | None, Query(ge=1, description="A seal noted earlier")] = None,
    hash: Annotated[str | None, Query(pattern=SEAL_TEXT, description="Its hash")] = None,  # noqa: A002
) -> AuditVerdict:
    """Follow the chain from its first seal to its last."""
    return await Verification(session, state.settings.audit_chain()).run(sequence, hash)
