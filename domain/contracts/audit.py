"""What the audit shows to operators."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class AuditRow(BaseModel):
    """One act."""

    model_config = ConfigDict(from_attributes=True)

    audit_id: int
    at: datetime
    actor: str
    role: str
    action: str
    subject: str
    details: dict[str, Any]


class AuditPage(BaseModel):
    """Some acts, in order. `next_after` asks for those behind them."""

    entries: list[AuditRow]
    next_after: int | None


class AuditVerdict(BaseModel):
    """Whether the chain holds. Note `sequence` and `hash` elsewhere: they prove later that nothing was cut off."""

    holds: bool
    sequence: int
    hash: str
    unsealed: int
    is_keyed: bool = Field(description="Whether the newest seal was made with a key that the database does not hold")
    fault: str | None
