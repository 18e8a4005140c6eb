"""The database's state, for administrators."""

from pydantic import BaseModel


class BootstrapStatus(BaseModel):
    schema_current: str | None
    schema_head: str | None
    is_current: bool
    postgresql: str
    postgis: str | None
    pgstac: str | None
    workflows: list[str]
    may_migrate: bool
    development: bool


class TableFacts(BaseModel):
    """Rows are the planner's estimate: counting would read the table."""

    name: str
    rows_about: int
    size_bytes: int


class BootstrapDone(BaseModel):
    done: str
    changed: bool
    details: list[str] = []
