"""What partners and operators are answered, from what was read. Partners are shown no run, node or flow run."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from domain.contracts.assets import Approval, ExposureLevel
from domain.contracts.platforms import PlatformRow
from domain.contracts.problems import Problem
from domain.contracts.reviews import ClearanceLevel
from domain.contracts.submissions import DataType, Priority, RequestState
from domain.rules.clearance import Identity, may_read
from domain.rules.publication import item_id
from gateway import translate
from gateway.reads.queries import AssetRow, RequestRow, VersionRow


class Progress(BaseModel):
    """100 % is said of completed requests only. Items are those of the nodes that work through lists."""

    percent: int = Field(ge=0, le=100)
    nodes_done: int = Field(ge=0)
    nodes_total: int = Field(ge=0)
    items_done: int = Field(ge=0)
    items_total: int = Field(ge=0)


class Link(BaseModel):
    rel: str
    href: str
    type: str


class RequestResult(BaseModel):
    """What a completed request came to. `links` lead to the data once approval and clearance let you read it."""

    asset_id: str
    version: int
    revision: int
    approval: Approval
    clearance: ClearanceLevel
    outputs: dict[str, Any] = Field(description="As the workflow declares them")
    links: list[Link]


class RequestStatus(BaseModel):
    """How a request stands. `identifies` names asset and version in the platform's own words."""

    request_id: UUID
    status: RequestState
    data_type: DataType | None
    operation: str
    priority: Priority
    identifies: dict[str, Any]
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    progress: Progress
    result: RequestResult | None
    problem: Problem | None


class AssetAnswer(BaseModel):
    """One asset. Its ETag is what a change of it has to name."""

    asset_id: str
    refs: dict[str, str]
    data_type: DataType
    clearance: ClearanceLevel
    cleared_at: datetime | None
    made_public_at: datetime | None
    exposure: ExposureLevel
    latest_version: int | None
    created_at: datetime


class AssetList(BaseModel):
    """In the order of their ids. `next_after` is the `after` of the next page."""

    assets: list[AssetAnswer]
    next_after: str | None


class VersionAnswer(BaseModel):
    """One version with its newest revision. Its ETag is what a change of it has to name."""

    asset_id: str
    version: int
    label: str
    revision: int
    served_revision: int | None
    request_id: UUID
    approval: Approval
    processing: RequestState
    decided_at: datetime | None
    reason: str | None
    content_hash: str | None
    created_at: datetime


class VersionList(BaseModel):
    versions: list[VersionAnswer]
    next_after: int | None


def request_status(row: RequestRow, platform: PlatformRow, reader: Identity) -> RequestStatus:
    """A request as its partner sees it."""
    named = row.refs is not None and row.version_label is not None
    return RequestStatus(
        request_id=row.request_id,
        status=row.status,
        data_type=row.data_type,
        operation=row.operation,
        priority=row.priority,
        identifies=translate.identified(row.refs or {}, row.version_label or "", platform) if named else {},
        submitted_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress=progress(row),
        result=_result(row, reader) if row.status == "completed" else None,
        problem=Problem.model_validate(row.problem) if row.status == "failed" and row.problem else None,
    )


def progress(row: RequestRow) -> Progress:
    """How far a request is."""
    if row.status == "completed":
        percent = 100
    else:
        percent = min(99, int(100 * row.fraction / row.nodes_total)) if row.nodes_total else 0
    return Progress(
        percent=percent,
        nodes_done=row.nodes_done,
        nodes_total=row.nodes_total,
        items_done=row.items_done,
        items_total=row.items_total,
    )


def _result(row: RequestRow, reader: Identity) -> RequestResult | None:
    if row.asset_id is None or row.ordinal is None or row.revision is None:
        return None
    return RequestResult.model_validate(
        {
            "asset_id": row.asset_id,
            "version": row.ordinal,
            "revision": row.revision,
            "approval": row.approval,
            "clearance": row.clearance,
            "outputs": row.outputs or {},
            "links": _links(row, reader),
        }
    )


def _links(row: RequestRow, reader: Identity) -> list[dict[str, str]]:
    """Return where the data is served, as long as it is and the reader may have it."""
    is_served = row.approval == "approved" and row.served_revision == row.revision and not row.is_deleted
    if not is_served or not may_read(reader, row.clearance or "uncleared", row.platform_id, approved=True):
        return []
    item = item_id(row.asset_id or "", row.ordinal or 0, row.revision or 0)
    tiles = f"/tiles/{row.asset_id}/WebMercatorQuad/tilejson.json?version={row.ordinal}"
    return [
        {"rel": "item", "href": f"/stac/collections/{row.asset_id}/items/{item}", "type": "application/geo+json"},
        {"rel": "tiles", "href": tiles, "type": "application/json"},
    ]


def asset(row: AssetRow) -> AssetAnswer:
    return AssetAnswer.model_validate({**vars(row), "latest_version": row.latest_ordinal})


def version(row: VersionRow) -> VersionAnswer:
    return VersionAnswer.model_validate({**vars(row), "version": row.ordinal})
