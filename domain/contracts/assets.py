"""Assets and versions as staff see them, and what people change about them."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from domain.contracts.reviews import ClearanceLevel
from domain.contracts.shown import ShownFacts
from domain.contracts.submissions import Priority, RequestState

Approval = Literal["pending_review", "approved", "rejected"]
ExposureLevel = Literal["latest_only", "all_versions"]


class ChangeClearance(BaseModel):
    """Who may read the asset's approved versions from now on, up or down."""

    model_config = ConfigDict(extra="forbid")

    clearance_level: ClearanceLevel
    reason: str = Field(min_length=3, max_length=2000)


class ChangeExposure(BaseModel):
    """Which approved versions have addresses: the latest, or all of them."""

    model_config = ConfigDict(extra="forbid")

    exposure: ExposureLevel


class AssetView(BaseModel):
    """One asset. `lock_version` is what its ETag says."""

    model_config = ConfigDict(from_attributes=True)

    asset_id: str
    platform_id: str
    refs: dict[str, str]
    data_type: str
    clearance: ClearanceLevel
    cleared_at: datetime | None
    cleared_by: str | None
    made_public_at: datetime | None
    made_public_by: str | None
    exposure: ExposureLevel
    created_at: datetime
    deleted_at: datetime | None
    deleted_by: str | None
    lock_version: int
    latest_ordinal: int | None = None


class RevisionView(BaseModel):
    """One processing of a version, and the decision about it."""

    model_config = ConfigDict(from_attributes=True)

    revision: int
    request_id: UUID
    approval: Approval
    processing: RequestState
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    approved_until: datetime | None
    content_hash: str | None
    outputs: ShownFacts | None
    created_at: datetime


class ArtifactView(BaseModel):
    """A file of a revision. `external_blob_path` names its copy outside, as long as there is one."""

    model_config = ConfigDict(from_attributes=True)

    revision: int
    role: str
    zone: str
    name: str
    media_type: str
    sha256: str
    size_bytes: int
    external_blob_path: str | None
    adf_run_id: str | None


class VersionView(BaseModel):
    """One version with its newest revision; `served_revision` is the approved one, if there is any."""

    asset_id: str
    ordinal: int
    label: str
    served_revision: int | None
    newest: RevisionView
    created_at: datetime
    deleted_at: datetime | None
    deleted_by: str | None
    lock_version: int


class AssetPage(BaseModel):
    assets: list[AssetView]
    next_after: str | None


class VersionPage(BaseModel):
    versions: list[VersionView]
    next_after: str | None


class ArtifactPage(BaseModel):
    artifacts: list[ArtifactView]
    next_after: int | None


class PlatformView(BaseModel):
    """A partner system's registry row."""

    model_config = ConfigDict(from_attributes=True)

    platform_id: str
    display_name: str
    required_refs: list[str]
    optional_refs: list[str]
    version_ref: str
    is_active: bool
    approvals_required: int
    approval_days: int | None
    source_prefixes: list[str]
    share: int = Field(description="How many runs go in its turn")
    priority_cap: Priority = Field(description="The highest priority that it may have")
