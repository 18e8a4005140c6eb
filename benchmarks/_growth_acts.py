"""The acts whose cost is measured as a database grows: every list and page, and what loops do, by name.

An act does the same on a database of any size: it reads what is past, and works on what is alive, of which there is
always the same. Where it uses something up, it says how that is put back.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from hashlib import md5
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import psycopg
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks._platform import MeasuredPlatform
from domain.loops.audit_sealer import AuditSealer
from domain.loops.callback_sender import EACH_ENDPOINT
from domain.loops.reconciler import Reconciler
from domain.loops.unserved_pools import UnservedPoolSweep
from domain.repositories import outbox
from domain.repositories.approvals import Approvals
from domain.repositories.callbacks import Callbacks
from domain.repositories.console import MARKS, ConsoleLists
from domain.repositories.layers import Layers
from domain.repositories.leftovers import Leftovers
from domain.repositories.node_states import NodeStates
from domain.repositories.sessions import Sessions
from domain.rules import identity
from domain.rules.leftovers import Retention as Kept
from domain.rules.reconcile import FlowState, Patience

ROOMY = 100_000
PAST, NOW = 5, 0  # which of the past and of what is alive is asked for
SENT_AGAIN = "update app.attempts set state = 'ready', lease_until = null where state = 'sending'"
NOT_DISPOSED = """
    update app.attempts set disposed_at = null where disposed_at > now() - interval '30 min'
    and run_id in (select md5('run now ' || n)::uuid from generate_series(60, 99) n)
"""


def uuid_of(words: str) -> UUID:
    return UUID(_hash(words))


def _hash(words: str) -> str:
    return md5(words.encode(), usedforsecurity=False).hexdigest()


NAMED = {
    "asset": identity.asset_id("ddh", {"dataset_id": "past", "resource_id": str(PAST)}),
    "request": str(uuid_of(f"request {PAST}")),
    "run": str(uuid_of(f"run {PAST}")),
    "flow_run": str(uuid_of(f"flow run {PAST}")),
    "callback": str(uuid_of(f"request {PAST + 1}")),
    "waiting": _hash(f"asset now {NOW}"),
}


@dataclass(frozen=True)
class Act:
    """One measured act. Requests have a `path`."""

    name: str
    do: Callable[[MeasuredPlatform], Awaitable[None]]
    put_back: str = ""
    path: str = ""

    async def undo(self, platform: MeasuredPlatform) -> None:
        if self.put_back:
            async with await psycopg.AsyncConnection.connect(platform.url("cairn_app"), autocommit=True) as connection:
                await connection.execute(self.put_back.encode())


# --- requests that read ---

READ: dict[tuple[str, str], tuple[str, ...]] = {
    ("domain", "operator"): (
        "/api/v1/platforms",
        "/api/v1/assets",
        "/api/v1/assets?platform_id=geonode",
        "/api/v1/assets?clearance=ouo",
        "/api/v1/assets?clearance=uncleared",
        "/api/v1/assets?ref=resource_id=5&ref=dataset_id=past",
        "/api/v1/assets/{asset}",
        "/api/v1/versions",
        "/api/v1/versions?approval=pending_review&processing=completed",
        "/api/v1/versions?approval=rejected",
        "/api/v1/versions?processing=processing",
        "/api/v1/versions?asset_id={asset}",
        "/api/v1/assets/{asset}/versions/0",
        "/api/v1/assets/{asset}/versions/0/revisions",
        "/api/v1/assets/{asset}/versions/0/artifacts",
        "/api/v1/assets/{asset}/versions/0/approvals",
        "/api/v1/audit",
        "/api/v1/audit?subject=asset/{asset}",
        "/api/v1/audit?subject=client/",
        "/api/v1/audit?action=never",
        "/api/v1/callbacks",
        "/api/v1/callbacks?state=failed",
        "/api/v1/callbacks?state=ready",
        "/api/v1/callbacks?request_id={request}",
        "/api/v1/callbacks/{callback}",
        "/api/v1/clients",
        "/api/v1/runs",
        "/api/v1/runs?status=active",
        "/api/v1/runs?status=failed",
        "/api/v1/runs?workflow_id=echo_test",
        "/api/v1/runs?platform_id=geonode",
        "/api/v1/runs?platform_id=ddh&status=cancelled",
        "/api/v1/runs/{run}",
        "/api/v1/runs/{run}/nodes/node0/items",
        "/api/v1/status/lookup?flow_run_id={flow_run}",
        "/api/v1/requests",
        "/api/v1/requests?status=active",
        "/api/v1/requests?status=failed",
        "/api/v1/requests?platform_id=geonode",
        "/api/v1/requests?platform_id=arcgis&status=cancelled",
        "/api/v1/requests?asset_id={asset}",
        "/api/v1/requests/{request}",
        "/api/v1/requests/{request}/timeline",
        "/api/v1/stats?window=1h",
        "/metrics",
        "/readyz",
    ),
    ("console", "operator"): (
        *(f"/console/?show={shown}" for shown in ("waiting", "working", "failed", "rejected", "approved", "all")),
        "/console/?show=waiting&platform=geonode",
        "/console/?show=all&platform=geonode",
        "/console/?show=approved&platform=geonode&type=vector",
        "/console/?show=all&q=nowhere-to-be-found",
        "/console/?show=all&q={asset}",
        "/console/?show=waiting&q=now",
        "/console/versions/{asset}/0",
        "/console/versions/{waiting}/0",
        *(f"/console/{page}" for page in ("assets", "platforms", "audit", "callbacks", "work?window=1h")),
        "/console/assets?platform=geonode",
        "/console/assets/{asset}",
        "/console/audit?actor=nobody",
        "/console/audit?subject=asset/{asset}",
        "/console/callbacks?state=failed",
        "/console/callbacks/{callback}",
    ),
    ("gateway", "ddh-dev"): (
        "/api/platform/status/{request}",
        "/api/assets",
        "/api/assets?clearance=ouo",
        "/api/assets?data_type=vector",
        "/api/assets?ref=resource_id=5",
        "/api/assets/{asset}",
        "/api/assets/{asset}/versions",
        "/api/assets/{asset}/versions/0",
        "/ogc/processes",
        "/ogc/jobs",
        "/ogc/jobs?status=failed",
        "/ogc/jobs?status=running",
        "/ogc/jobs?status=dismissed&status=failed",
        "/ogc/jobs?processID=vector_ingest",
        "/ogc/jobs/{request}",
        "/api/readyz",
    ),
    ("gateway", "operator"): (
        "/api/assets?clearance=uncleared",
        "/api/status/jobs",
        "/api/status/jobs?state=failed",
        "/api/status/jobs?state=running",
        "/api/status/jobs?workflow_id=echo_test",
        "/api/status/jobs?platform_id=geonode",
        "/api/status/job/{run}",
        "/api/status/job/{run}/nodes",
        "/api/status/job/{run}/events",
        "/api/status/stats?window=1h",
        "/api/status/lookup?flow_run_id={flow_run}",
        "/api/admin/active-jobs",
        "/api/admin/recent-events",
        "/api/admin/workflows",
    ),
    ("serving", "ddh-dev"): (
        "/readyz",
        "/stac/collections/{asset}",
        "/stac/collections/{asset}/items",
        "/stac/search?collections={asset}",
        "/vector/collections/{asset}",
    ),
}
ANSWERS = {200, 404}  # of what has no file or no layer


def _reads() -> Iterable[Act]:
    for (room, who), paths in READ.items():
        for path in paths:
            filled = path.format_map(NAMED)

            async def read(platform: MeasuredPlatform, room: str = room, who: str = who, path: str = filled) -> None:
                answer = await platform.ask(room, who, path)
                if answer.status_code not in ANSWERS:
                    raise RuntimeError(f"{room} {path}: {answer.status_code} {answer.text[:500]}")

            yield Act(f"{room} {path}", read, path=filled)


# --- what changes something ---


async def _posted(platform: MeasuredPlatform, room: str, who: str, path: str, body: Any) -> Any:
    answer = await platform.ask(room, who, path, method="POST", body=body)
    if not answer.is_success:
        raise RuntimeError(f"{room} {path}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


async def submit(platform: MeasuredPlatform) -> None:
    """A new version of an asset that has eight."""
    await _posted(platform, "gateway", "ddh-dev", "/api/platform/submit", _submission(f"{uuid4()}", PAST))


async def submit_again(platform: MeasuredPlatform) -> None:
    """What was sent already."""
    await _posted(platform, "gateway", "ddh-dev", "/api/platform/submit", _submission("same", PAST + 2))


def _submission(label: str, resource: int) -> dict[str, Any]:
    words = {"dataset_id": "past", "resource_id": str(resource), "version_id": label, "operation": "ingest"}
    return words | {"data_type": "raster", "source": "uploads/ddh/bench.tif"}


async def claim(platform: MeasuredPlatform) -> None:
    claimed = await outbox.claim(platform.database, 10, in_flight=ROOMY)
    if len(claimed) != 10:
        raise RuntimeError(f"{len(claimed)} of 10 were claimed.")


async def work(platform: MeasuredPlatform) -> None:
    """A run from its claim to its commit."""
    [dispatch] = await outbox.claim(platform.database, 1, in_flight=ROOMY)
    flow_run_id = uuid4()
    await outbox.link(platform.database, dispatch.run_id, dispatch.number, flow_run_id)
    way, said = f"/api/v1/runs/{dispatch.run_id}", {"attempt_token": dispatch.token}
    await _posted(platform, "domain", "worker", f"{way}/start", said | {"flow_run_id": str(flow_run_id)})
    event = {"node_id": "node0", "state": "completed"}
    await _posted(platform, "domain", "worker", f"{way}/heartbeat", said | {"events": [event]})
    await _posted(platform, "domain", "worker", f"{way}/commit", said | {"outputs": {}})


class Prefect:
    """Says that what lives runs and that the rest is over."""

    async def states(self, flow_run_ids: Iterable[UUID]) -> dict[UUID, FlowState]:
        over = {uuid_of(f"flow run now {n}") for n in range(60, 80)}
        return {one: FlowState.COMPLETED if one in over else FlowState.RUNNING for one in flow_run_ids}

    async def find(self, key: str) -> tuple[UUID | None, FlowState]:
        return None, FlowState.MISSING

    async def stop(self, flow_run_id: UUID, flow: FlowState) -> None:
        raise RuntimeError("Nothing is to be stopped.")

    async def end_inside(self, flow_run_ids: Iterable[UUID]) -> bool:
        return True

    async def children_under_way(self) -> dict[UUID, str]:
        return {uuid_of(f"child {number}"): _hash(f"token now {number}") for number in range(20)}

    async def end_child(self, flow_run_id: UUID) -> None:
        """It is found again by the next sweep, as where Prefect does not answer."""


def _reconciler(platform: MeasuredPlatform) -> Reconciler:
    return Reconciler(platform.database, Prefect(), 60, Patience(), max_attempts=3)


async def sweep(platform: MeasuredPlatform) -> None:
    await _reconciler(platform).sweep()


async def sweep_fenced(platform: MeasuredPlatform) -> None:
    await _reconciler(platform).sweep_fenced()


async def route(platform: MeasuredPlatform) -> None:
    await UnservedPoolSweep(platform.database, 5, 25, 600).look()


def _sealer(platform: MeasuredPlatform) -> AuditSealer:
    return AuditSealer(platform.database, 60, platform.service.settings.audit_chain())


async def seal_from_the_start(platform: MeasuredPlatform) -> None:
    """Seal like a process that has just begun, and as each does now and then."""
    await _sealer(platform).seal()


async def decide(platform: MeasuredPlatform) -> None:
    """Approve what waits, and take it back."""
    path = f"/api/v1/assets/{NAMED['waiting']}/versions/0"
    await _posted(platform, "domain", "reviewer", f"{path}/approve", {"revision": 1, "clearance_level": "public"})
    await _posted(platform, "domain", "reviewer", f"{path}/unpublish", {"revision": 1, "reason": "measured"})


UNDECIDED = f"""
    update app.revisions set approval = 'pending_review', decided_at = null, decided_by = null
    where asset_id = '{NAMED["waiting"]}'
"""  # noqa: S608 - a name of ours


# Versions follow each other: the next one waits until this is resolved.
RESOLVED = f"""
    update app.asset_versions set deleted_at = now() where asset_id = '{NAMED["asset"]}' and ordinal > 7
"""  # noqa: S608 - a name of ours


def _in_session(name: str, ask: Callable[[AsyncSession], Awaitable[Any]]) -> Act:
    """Make an act of a question in a transaction that leaves nothing behind."""

    async def do(platform: MeasuredPlatform) -> None:
        async with platform.database.transaction() as session:
            await ask(session)
            await session.rollback()

    return Act(name, do)


def _mark(page: str) -> Act:
    """What open pages ask once a second."""
    return _in_session(f"console looks at {page}", lambda session: ConsoleLists(session).mark(page, NAMED["asset"], 0))


async def product(platform: MeasuredPlatform) -> None:
    """What serving asks for a tile, a file and a credential."""
    found = await platform.lookup.product(NAMED["asset"], None, lambda _: True)
    if found is None:
        raise RuntimeError("The asset is not served.")
    await platform.lookup.product(NAMED["asset"], 0, lambda _: True)
    await platform.lookup.staged(NAMED["waiting"], 0)
    await platform.lookup.file(found, "0")
    await platform.lookup.descriptions(found, "stac_item")
    await platform.lookup.identity(_hash("nobody"))
    await platform.lookup.identity_of("operator")


def all_acts() -> list[Act]:
    """Return all acts, reads first: a change may make the next act's work another."""
    return [
        *_reads(),
        *map(_mark, MARKS),
        Act("serving: a product", product),
        Act("router", route),
        Act("sealer at its start", seal_from_the_start),
        _in_session("callback senders claim", lambda session: Callbacks(session).claim(10, EACH_ENDPOINT, 30)),
        _in_session("collector", lambda session: Leftovers(session).due(Kept(), 300, 10)),
        _in_session("approvals that ended", lambda session: Approvals(session).ended(100)),
        _in_session("node history", lambda session: NodeStates(session).forget(90 * 86_400, 5000)),
        _in_session("words outside", lambda session: Layers(session).recall_external(["x" * 32])),
        _in_session("sign in", lambda session: Sessions(session).begin(quote("x"), "form", 60, "operator")),
        Act("sweep", sweep, NOT_DISPOSED),
        Act("sweep of what was fenced", sweep_fenced, NOT_DISPOSED),
        Act("claim", claim, SENT_AGAIN),
        Act("submit", submit, RESOLVED),
        Act("submit again", submit_again),
        Act("work", work),
        Act("approve and unpublish", decide, UNDECIDED),
    ]
