"""The database's state, for administrators."""

from datetime import datetime

from pydantic import BaseModel, Field


class BootstrapStatus(BaseModel):
    schema_current: str | None
    schema_head: str | None
    is_current: bool
    postgresql: str
    postgis: str | None
    pgstac: str | None
    workflows: list[str]
    refused: dict[str, str] = Field(description="Files that are not what runs, by workflow, and why")
    may_migrate: bool
    development: bool


class TableFacts(BaseModel):
    """Rows are the planner's estimate: counting would read the table."""

    name: str
    rows_about: int
    size_bytes: int


class PublishedDefinition(BaseModel):
    """A version of a workflow. Its content is never another."""

    workflow_id: str
    version: str
    digest: str
    published_at: datetime | None = None


class BootstrapDone(BaseModel):
    done: str
    changed: bool
    details: list[str] = []
    workflows: list[PublishedDefinition] = Field(default=[], description="What runs from now on")
    replaced: dict[str, str] = Field(default={}, description="Versions that ran until now, where another one does now")
    refused: dict[str, str] = Field(default={}, description="Files that are not what runs, by workflow, and why")
