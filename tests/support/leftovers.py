"""Compares the zones and schema `geo` with the database: files and tables without a row, rows without their file.

It knows what the collector is to leave and nothing of how it works, so that it finds what that forgets.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from sqlalchemy import Engine

from flows.storage import LocalStore, Zones
from flows.storage.azure import AzureStore
from flows.storage.zones import ZONES

PARTIAL: Final = ".partial-"
ATTEMPT: Final = re.compile(r"(?P<home>assets/[^/]+/\d+-r\d+|runs/[^/]+)/a\d+/")
RUN: Final = re.compile(r"(?P<run>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(?:m(?P<memory>\d+)|a\d+)/")
MARK: Final = re.compile(r"(?:withdrawn|pipeline-runs)/(?P<destination>.+)")
TRIAL: Final = "trials/"  # marks of the handler that the engine is tried by: they outlive everything
REQUESTS: Final = """
    select q.request_id::text, q.status, q.asset_id, q.ordinal, q.revision, q.result,
           coalesce(q.finished_at > now() - make_interval(secs => %s), false) as is_young,
           v.deleted_at is not null as is_deleted
    from app.requests q left join app.asset_versions v on v.asset_id = q.asset_id and v.ordinal = q.ordinal
"""
RUNS: Final = """
    select run_id::text, request_id::text, memory, outputs, state in ('pending', 'running') or exists (
        select from app.attempts a where a.run_id = r.run_id and a.state in ('ready', 'sending', 'sent', 'started')
    ) as is_open
    from app.runs r
"""
ARTIFACTS: Final = "select run_id::text, zone, name, size_bytes from app.artifacts"
EXPORTS: Final = "select request_id::text, destination, withdrawn_at is not null as is_withdrawn from app.exports"
LAYERS: Final = "select table_name, product, run_id, is_ready from geo.layers"
TABLES: Final = """
    select tablename from pg_tables where schemaname = 'geo' and tablename not in ('layers', 'loaded_chunks')
"""


@dataclass
class Owner:
    """A request, and what it still needs of what was made for it."""

    status: str
    is_young: bool
    is_deleted: bool
    is_open: bool = False
    memories: dict[str, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    @property
    def keeps_all(self) -> bool:
        return self.is_open or (self.status != "completed" and self.is_young)

    @property
    def is_over(self) -> str:
        return f"its request is {self.status}"


@dataclass
class Known:
    """The database's side."""

    by_home: dict[str, Owner] = field(default_factory=dict)
    by_run: dict[str, Owner] = field(default_factory=dict)
    by_destination: dict[str, tuple[Owner, bool]] = field(default_factory=dict)
    artifacts: list[tuple[str, str, str, int]] = field(default_factory=list)
    layers: list[tuple[str, str, str, bool]] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)


def strays(database: str | Engine, zones: Path | Zones, may_rerun_seconds: float = 0) -> list[str]:
    """Every file, table and row that stands alone, each with the reason. To be asked once the collector has swept.

    What failed or was cancelled less than `may_rerun_seconds` ago may still be run again, and keeps what it made.
    """
    url = database if isinstance(database, str) else database.url.render_as_string(hide_password=False)
    with psycopg.connect(re.sub(r"^\w+(\+\w+)?://", "postgresql://", url)) as connection:
        known = _known(connection, may_rerun_seconds)
    made = Zones.local(zones) if isinstance(zones, Path) else zones
    found = {zone: dict(_listed(getattr(made, zone))) for zone in ZONES}
    alone = [
        f"{zone}/{name}: {reason}"
        for zone, names in found.items()
        for name in sorted(names)
        if (reason := _why_stray(zone, name, known))
    ]
    return [*alone, *_rows_without_file(known, found), *_stray_tables(known)]


def _known(connection: psycopg.Connection, may_rerun_seconds: float) -> Known:
    known, owners = Known(), dict[str, Owner]()
    for request_id, status, asset_id, ordinal, revision, result, is_young, is_deleted in connection.execute(
        REQUESTS, [may_rerun_seconds]
    ):
        owner = owners[request_id] = Owner(status, is_young, is_deleted, named=set(_texts(result)))
        if asset_id is not None:
            known.by_home[f"assets/{asset_id}/{ordinal}-r{revision}"] = owner
    for run_id, request_id, memory, outputs, is_open in connection.execute(RUNS):
        owner = known.by_run[run_id] = known.by_home[f"runs/{run_id}"] = owners[request_id]
        owner.memories[run_id] = memory
        owner.named |= set(_texts(outputs))
        owner.is_open = owner.is_open or is_open
    for request_id, destination, is_withdrawn in connection.execute(EXPORTS):
        known.by_destination[destination] = (owners[request_id], is_withdrawn)
    known.artifacts = [(each[0], each[1], each[2], each[3]) for each in connection.execute(ARTIFACTS)]
    for run_id, _, name, _ in known.artifacts:
        known.by_run[run_id].named.add(name)
    known.layers = [(each[0], each[1], each[2], each[3]) for each in connection.execute(LAYERS)]
    known.tables = {name for (name,) in connection.execute(TABLES)}
    return known


def _why_stray(zone: str, name: str, known: Known) -> str | None:
    """Why nobody needs the file, or None."""
    if zone == "external":
        return _why_stray_copy(name, known)
    own = name.removeprefix("quarantine/") if zone == "bronze" else name
    if place := ATTEMPT.match(own):
        owner = known.by_home.get(place["home"])
        return "no such run or revision" if owner is None else _why_stray_product(zone, name, owner)
    if zone == "runs" and (place := RUN.match(name)):
        owner = known.by_run.get(place["run"])
        return "no such run" if owner is None else _why_stray_memory(place, name, owner)
    if _is_partial(name):
        return "half-written, and nobody writes it"
    if zone == "runs" and (mark := MARK.fullmatch(name)):
        return None if mark["destination"] in known.by_destination else "no such export"
    is_expected = (zone == "bronze" and own == name) or (zone == "runs" and name.startswith(TRIAL))
    return None if is_expected else "nothing is known of such files"


def _why_stray_product(zone: str, name: str, owner: Owner) -> str | None:
    if owner.keeps_all:
        return None
    if owner.status != "completed":
        return owner.is_over
    if _is_partial(name):
        return "half-written, and its request is completed"
    return None if zone != "runs" and name in owner.named else "no row names it, and its request is completed"


def _why_stray_memory(place: "re.Match[str]", name: str, owner: Owner) -> str | None:
    if owner.keeps_all:
        return None
    if owner.status != "completed":
        return owner.is_over
    if place["memory"] is None or int(place["memory"]) != owner.memories[place["run"]] or _is_partial(name):
        return "of no use to a request that is completed"
    return None


def _why_stray_copy(name: str, known: Known) -> str | None:
    destination = name.rpartition("/")[0]
    if destination not in known.by_destination:
        return "no such export"
    owner, is_withdrawn = known.by_destination[destination]
    if is_withdrawn:
        return "its export was withdrawn"
    if owner.keeps_all or (owner.status == "completed" and name in owner.named):
        return None
    return f"no copy of an export that is {owner.status}"


def _rows_without_file(known: Known, found: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for run_id, zone, name, size_bytes in known.artifacts:
        owner = known.by_run[run_id]
        if owner.is_deleted or (zone == "external" and known.by_destination.get(name.rpartition("/")[0], (0, 1))[1]):
            continue  # what was deleted or withdrawn keeps its rows
        if found[zone].get(name) != size_bytes:
            there = found[zone].get(name)
            yield f"artifact {zone}/{name} of run {run_id}: the file has {there} of {size_bytes} bytes"


def _stray_tables(known: Known) -> Iterator[str]:
    committed = {(run_id, name) for run_id, _, name, _ in known.artifacts}
    registered = {layer[0] for layer in known.layers}
    yield from (f"geo.{name}: nobody has registered it" for name in sorted(known.tables - registered))
    yield from (f"geo.layers {name}: its table is gone" for name in sorted(registered - known.tables))
    for table, product, run_id, is_ready in known.layers:
        owner = known.by_run.get(run_id)
        if owner is None:
            yield f"geo.{table}: no such run {run_id}"
        elif not owner.keeps_all and (owner.is_deleted or not is_ready or (run_id, product) not in committed):
            yield f"geo.{table}: no served product, and {owner.is_over}"


def _texts(value: Any) -> Iterator[str]:
    """Every text of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _is_partial(name: str) -> bool:
    return name.rpartition("/")[2].startswith(PARTIAL)


def _listed(store: Any) -> Iterator[tuple[str, int]]:
    """All that lies in a zone with its size, half-written files too."""
    if isinstance(store, AzureStore):
        yield from ((blob.name, blob.size) for blob in store._client.list_blobs())
    elif isinstance(store, LocalStore):
        for folder, _, files in os.walk(store.root):
            for file in files:
                path = Path(folder) / file
                yield path.relative_to(store.root).as_posix(), path.stat().st_size
    else:
        raise TypeError(f"{type(store).__name__} cannot be listed.")
