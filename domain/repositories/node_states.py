"""The nodes of a run: their newest state, and every change of it as a row that stays."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import NodeEvent
from domain.models import RunNode

ENDED: Final = frozenset({"completed", "failed", "skipped", "cancelled"})
WELL: Final = ("running", "completed", "skipped")  # what went wrong before is over then
GOES_ON: Final = f"({', '.join(repr(state) for state in WELL)})"
ITEMS, FAULT = "items_", "problem"
# What an event may tell of a node is a column of the node by the same name.
TOLD: Final = tuple(name for name in NodeEvent.model_fields if name != "node_id" and hasattr(RunNode, name))
COUNTS: Final = tuple(name for name in TOLD if name.startswith(ITEMS))
# Counts of a fan-out by their names; of what is none, nothing.
COUNTED: Final = "case when items_total is not null then jsonb_strip_nulls(jsonb_build_object({pairs})) end".format(
    pairs=", ".join(f"'{name.removeprefix(ITEMS)}', {name}" for name in COUNTS)
)
# One statement however many nodes. They are locked by their names first: two flow runs of one attempt that tell of the
# same nodes must not wait for each other. Of several words about one node in one message the first is held against what
# the node was; the others have been held against each other.
NOTE: Final = f"""
    with told as (
        select place, doc from jsonb_array_elements(cast(:steps as jsonb)) with ordinality as listed (doc, place)
    ), newest as (
        select key as node_id, value as doc from jsonb_each(cast(:newest as jsonb))
    ), known as (
        select * from app.run_nodes where run_id = :run_id and node_id in (select node_id from newest)
        order by node_id for update
    ), after as (
        select known.node_id, known.started_at, newest.doc ? 'began' as began,
            {", ".join(f"coalesce((newest.doc ->> '{name}')::int, known.{name}) as {name}" for name in COUNTS)}
        from known join newest using (node_id)
    ), changed as (
        select place, node_id, doc, doc ->> 'state' as state, (doc ->> 'tries')::int as tries,
            (doc ->> 'is_end')::bool as is_end,
            case when (doc ->> 'is_first')::bool then known.state else doc ->> 'before' end as before,
            case when (doc ->> 'is_first')::bool then known.tries else (doc ->> 'tries_before')::int end as tries_before
        from told join known on known.node_id = doc ->> 'node_id'
    ), kept as (
        insert into app.node_transitions (
            run_id, attempt, node_id, before, state, tries, retries, pool, items, seconds, message, problem
        )
        select :run_id, :attempt, node_id, before, state, greatest(tries, tries_before),
            greatest(tries - greatest(tries_before, 1), 0)
                + case when is_end then coalesce(items_retried, 0) else 0 end,
            doc ->> 'pool', case when is_end then {COUNTED} end,
            case when is_end and (began or started_at is not null)
                then coalesce(extract(epoch from clock_timestamp() - started_at), 0) end,
            doc ->> 'message', doc -> 'problem'
        from changed join after using (node_id) where before <> state or tries > tries_before
        order by place
    )
    update app.run_nodes n set
        {", ".join(f"{name} = coalesce(said.{name}, n.{name})" for name in TOLD if name != FAULT)},
        problem = case when said.state in {GOES_ON} then null else coalesce(said.problem, n.problem) end,
        started_at = case when doc ? 'began' then coalesce(n.started_at, clock_timestamp()) else n.started_at end,
        finished_at = case when doc ? 'ended' then clock_timestamp() else n.finished_at end,
        updated_at = clock_timestamp()
    from known join newest using (node_id) cross join lateral jsonb_populate_record(null::app.run_nodes, doc) said
    where n.run_id = :run_id and n.node_id = known.node_id
"""  # noqa: S608 - our own words
RESTARTED: Final = f"""
    insert into app.node_transitions (run_id, attempt, node_id, before, state, items, retries)
    select :run_id, (select max(number) from app.attempts where run_id = :run_id), node_id, state, 'pending',
        case when finished_at is null then {COUNTED} end,
        case when finished_at is null then coalesce(items_retried, 0) else 0 end
    from {{nodes}} where state <> 'pending' order by node_id
"""  # noqa: S608 - our own words
RESET: Final = f"""
    with unfinished as (
        select * from app.run_nodes where run_id = :run_id and state <> 'completed' order by node_id for update
    ), kept as ({RESTARTED.format(nodes="unfinished")})
    update app.run_nodes n set state = 'pending', tries = 0,
        {", ".join(f"{name} = null" for name in TOLD if name not in {"state", "tries", "pool"})},
        started_at = null, finished_at = null, updated_at = clock_timestamp()
    from unfinished where n.run_id = :run_id and n.node_id = unfinished.node_id
"""  # noqa: S608 - our own words
REPLACED: Final = RESTARTED.format(nodes="(select * from app.run_nodes where run_id = :run_id) n")
FORGET: Final = """
    delete from app.node_transitions where transition_id in (
        select transition_id from app.node_transitions
        where at < statement_timestamp() - make_interval(secs => :seconds) order by at limit :limit
    )
"""


@dataclass(frozen=True)
class NodeStates:
    session: AsyncSession

    async def note(self, run_id: UUID, attempt: int, events: Iterable[NodeEvent]) -> None:
        """Write what nodes report, the later of two words about the same thing winning, and keep what changed."""
        told = [event.model_dump(mode="json", exclude_none=True) for event in events]
        if told:
            values = {"run_id": run_id, "attempt": attempt, "steps": _steps(told), "newest": _newest(told)}
            await self.session.execute(text(NOTE), values)

    async def states(self, run_id: UUID) -> dict[str, str]:
        """How each node of the run stands."""
        query = select(RunNode.node_id, RunNode.state).where(RunNode.run_id == run_id)
        return {row[0]: row[1] for row in await self.session.execute(query)}

    async def reset_unfinished(self, run_id: UUID) -> None:
        """Have every node wait again but those that completed: these the engine remembers."""
        await self.session.execute(text(RESET), {"run_id": run_id})

    async def replace(self, run_id: UUID, nodes: Iterable[RunNode]) -> None:
        """The run's nodes as before it ran."""
        await self.session.execute(text(REPLACED), {"run_id": run_id})
        await self.session.execute(delete(RunNode).where(RunNode.run_id == run_id))
        self.session.add_all(nodes)

    async def forget(self, seconds: float, limit: int) -> int:
        """Delete the oldest of what changed so long ago; returns how many."""
        done = await self.session.execute(text(FORGET), {"seconds": seconds, "limit": limit})
        return int(done.rowcount)  # type: ignore[attr-defined] # of a delete


def _newest(told: Iterable[Mapping[str, Any]]) -> str:
    """What each node is after all of it."""
    newest: dict[str, dict[str, Any]] = {}
    for event in told:
        values = newest.setdefault(event["node_id"], {})
        values |= {name: value for name, value in event.items() if name in TOLD}
        if event["state"] in WELL:
            values.pop(FAULT, None)
        if event["state"] == "running":
            values["began"] = True
        if event["state"] in ENDED:
            values["ended"] = True
    return json.dumps(newest)


def _steps(told: Iterable[Mapping[str, Any]]) -> str:
    """What may be a change: the first word about each node, and each that says another state or more tries."""
    known: dict[str, tuple[str, int]] = {}
    steps = []
    for event in told:
        state, tries = event["state"], event.get("tries", 0)
        before = known.get(event["node_id"])
        if before is not None and before[0] == state and tries <= before[1]:
            continue
        known[event["node_id"]] = state, max(tries, before[1] if before else 0)
        steps.append(_step(event) | {"is_first": before is None, "tries": tries})
        if before is not None:
            steps[-1] |= {"before": before[0], "tries_before": before[1]}
    return json.dumps(steps)


def _step(event: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an event itself."""
    step = {name: event[name] for name in ("node_id", "state", "pool", "message", "problem") if name in event}
    return step | {"is_end": event["state"] in ENDED}
