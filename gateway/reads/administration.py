"""What operators read of the gateway itself, and of all platforms' work at a glance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from pydantic import BaseModel, HttpUrl, SecretStr
from pydantic_settings import BaseSettings

from domain.rules.lifecycle import OPEN_RUNS, sql_list
from gateway.reads.operations import JOB_COLUMNS, Job
from gateway.reads.queries import EVERYBODYS, Queries

Setting = str | int | float | bool | None | list[Any] | dict[str, Any]


class Health(BaseModel):
    """What the gateway stands on, each asked just now."""

    gateway: Literal["ok"] = "ok"
    database: Literal["ok", "unavailable"]
    domain: Literal["ok", "unavailable"]
    serving: Literal["ok", "unavailable"]


class Config(BaseModel):
    """The settings of this process. Of secrets only whether they are set."""

    settings: dict[str, Setting]


class ActiveJobs(BaseModel):
    """Jobs that wait or run, oldest first. `total` counts all of them."""

    total: int
    jobs: list[Job]


class RecentEvent(BaseModel):
    event_id: int
    at: datetime
    kind: str
    actor: str | None
    request_id: UUID
    job_id: UUID | None
    details: dict[str, Any]


class RecentEvents(BaseModel):
    """Newest first."""

    events: list[RecentEvent]


class OfferedWorkflow(BaseModel):
    """What partners may have done."""

    process_id: str
    data_type: str
    operation: str
    title: str
    version: str


class OfferedWorkflows(BaseModel):
    workflows: list[OfferedWorkflow]


ACTIVE: Final = f"""
    select {JOB_COLUMNS} from api.jobs where state in {sql_list(OPEN_RUNS)}
    order by created_at, run_id limit %(limit)s
"""  # noqa: S608 - our own names
ACTIVE_TOTAL: Final = f"select count(*) as total from api.jobs where state in {sql_list(OPEN_RUNS)}"  # noqa: S608 - our own names
RECENT: Final = """
    select event_id, at, kind, actor, request_id, run_id as job_id, details from api.recent_events
    order by event_id desc limit %(limit)s
"""
OFFERED: Final = "select process_id, data_type, operation, title, version from api.processes order by process_id"


@dataclass(frozen=True)
class Administration:
    """Reads for operators, of every platform."""

    queries: Queries

    async def active(self, limit: int) -> ActiveJobs:
        jobs = await self.queries.rows(EVERYBODYS, Job, ACTIVE, {"limit": limit})
        [counted] = await self.queries.rows(EVERYBODYS, dict, ACTIVE_TOTAL, {})
        return ActiveJobs(total=counted["total"], jobs=list(jobs))

    async def events(self, limit: int) -> RecentEvents:
        return RecentEvents(events=list(await self.queries.rows(EVERYBODYS, RecentEvent, RECENT, {"limit": limit})))

    async def workflows(self) -> OfferedWorkflows:
        offered: Sequence[OfferedWorkflow] = await self.queries.rows(EVERYBODYS, OfferedWorkflow, OFFERED, {})
        return OfferedWorkflows(workflows=list(offered))


def shown(settings: BaseSettings) -> Config:
    """Settings as anybody who operates may see them."""
    return Config(settings={name: _masked(getattr(settings, name)) for name in sorted(type(settings).model_fields)})


def _masked(value: Any) -> Setting:
    match value:
        case SecretStr():
            said: Setting = "(set)" if value.get_secret_value() else "(not set)"
        case HttpUrl():
            said = without_credentials(str(value))
        case BaseModel():
            said = {name: _masked(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            said = {str(key): _masked(entry) for key, entry in value.items()}
        case list():
            said = [_masked(entry) for entry in value]
        case _:
            said = value if value is None or isinstance(value, bool | int | float) else str(value)
    return said


def without_credentials(url: str) -> str:
    """Return the address without user, password and query, which may be secret."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
