"""Any order of submitting, processing, deciding and deleting, against a model that fits on a page.

The short form runs in seconds. CAIRN_MACHINE_RUNS=2000 CAIRN_MACHINE_STEPS=50 is the full one.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.acts import Flow, call, decide, dispatched, submit
from tests.support.cluster import TestCluster
from tests.support.platform import Domain, add_clients, running_domain

RUNS = int(os.environ.get("CAIRN_MACHINE_RUNS", "12"))
STEPS = int(os.environ.get("CAIRN_MACHINE_STEPS", "25"))
LABELS = st.sampled_from(["a", "b", "c"])
SOURCES = st.sampled_from(["x", "y"])
CLEARANCES = ["uncleared", "ouo", "public"]
Answer = TypeVar("Answer")


@dataclass
class Version:
    """What the model knows of one undeleted version."""

    label: str
    source: str
    flow: Flow
    revision: int = 1
    approval: str = "pending_review"
    processing: str = "open"
    served: int | None = None
    decided: bool = False


@dataclass
class World:
    """One running domain that all examples take in turns, and a loop to ask it from."""

    cluster: TestCluster
    storage: Path
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    domain: Domain | None = None
    connection: psycopg.Connection | None = None
    other: Domain | None = None  # beside the first, where two clients race
    begun: int = 0

    def do(self, act: Coroutine[Any, Any, Answer]) -> Answer:
        return self.runner.run(act)

    def empty(self) -> Domain:
        """The domain with nothing in it."""
        self.begun += 1
        if self.domain is None:
            database = self.cluster.database()
            fresh = self.stack.enter_context(database)
            started = self.stack.enter_async_context(running_domain(fresh, self.storage, quota_cache_seconds=0))
            self.domain = self.do(started)
        else:
            self.cluster.empty(self.domain.database)
            add_clients(self.domain.database)
        return self.domain

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database holds, over one connection: steps are many."""
        assert self.domain is not None
        if self.connection is None:
            connection = psycopg.connect(self.domain.database.url(), autocommit=True)
            self.connection = self.stack.enter_context(connection)
        return self.connection.execute(query.encode()).fetchall()

    def close(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()


@pytest.fixture
def world(cluster: TestCluster, tmp_path: Path) -> Iterator[World]:
    made = World(cluster, tmp_path)
    yield made
    made.close()


class Lifecycle(RuleBasedStateMachine):
    """One asset under every act that people and flow runs have."""

    world: World

    @initialize()
    def begin(self) -> None:
        self.domain = self.world.empty()
        self.versions: dict[int, Version] = {}
        self.fenced: list[Flow] = []
        self.given = 0  # ordinals
        self.decisions = 0
        self.clearance = "uncleared"
        self.asset_id = ""

    def do(self, act: Coroutine[Any, Any, Answer]) -> Answer:
        return self.world.do(act)

    def some(self, choice: int) -> tuple[int, Version]:
        """One of the undeleted versions."""
        ordinals = sorted(self.versions)
        ordinal = ordinals[choice % len(ordinals)]
        return ordinal, self.versions[ordinal]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.world.rows(query)

    @property
    def latest(self) -> int | None:
        return max((ordinal for ordinal, version in self.versions.items() if version.served), default=None)

    @rule(label=LABELS, source=SOURCES)
    def submit(self, label: str, source: str) -> None:
        answer = self.do(submit(self.domain, version_label=label, source=f"uploads/{source}"))
        same = next((n for n, version in self.versions.items() if version.label == label), None)
        if same is not None:
            self._again(same, source, answer)
        elif any(version.served is None for version in self.versions.values()):
            assert answer.status_code == 409
        else:
            assert answer.status_code == 202, answer.text
            self.versions[self.given] = Version(label, source, self._flow())
            self.given += 1
        [(self.asset_id,)] = self.rows("select asset_id from app.assets")

    @rule(label=LABELS, source=SOURCES)
    def publish(self, label: str, source: str) -> None:
        """The way that most data takes, so that examples get far enough to be interesting."""
        self.submit(label, source)
        for place, ordinal in enumerate(sorted(self.versions)):
            if self.versions[ordinal].label == label:
                self.process(place, "commit")
                self.decide(place, "approve", "ouo")

    def _again(self, ordinal: int, source: str, answer: httpx.Response) -> None:
        version = self.versions[ordinal]
        unseen = version.processing == "completed" and version.approval == "pending_review" and not version.decided
        if version.source == source and (version.processing == "open" or unseen):
            assert (answer.status_code, answer.json()["duplicate"]) == (200, True)
            return
        assert answer.status_code == 202, answer.text
        self.fenced.append(version.flow)
        again = Version(version.label, source, self._flow(), version.revision + 1, served=version.served)
        self.versions[ordinal] = again

    def _flow(self) -> Flow:
        [flow] = self.do(dispatched(self.domain))
        return flow

    @precondition(lambda self: self.versions)
    @rule(choice=st.integers(0, 5), verb=st.sampled_from(["commit", "commit", "fail", "lose"]))
    def process(self, choice: int, verb: str) -> None:
        _, version = self.some(choice)
        flow, was_open = version.flow, version.processing == "open"
        assert self.do(flow.start()).status_code == (200 if was_open else 409)
        if verb == "commit":
            answer = self.do(flow.commit())
            assert answer.is_success is (was_open or version.processing == "completed")
            version.processing = "completed" if was_open else version.processing
        elif verb == "fail":
            answer = self.do(flow.fail())
            assert answer.is_success is (was_open or version.processing == "failed")
            version.processing = "failed" if was_open else version.processing
        elif was_open:
            lost = self.do(flow.fail("lost")).json()["state"]
            self.fenced.append(flow)
            version.processing = "failed" if lost == "failed" else "open"
            version.flow = flow if lost == "failed" else self._flow()

    @precondition(lambda self: self.fenced)
    @rule(choice=st.integers(0, 50), verb=st.sampled_from(["start", "commit"]))
    def come_late(self, choice: int, verb: str) -> None:
        """A fenced attempt changes nothing, whatever it says. One that had ended before may hear its own end again."""
        flow = self.fenced[choice % len(self.fenced)]
        before = self._stored()
        self.do(flow.start() if verb == "start" else flow.commit())
        assert self.do(flow.beat()).json() == {"stop": True}
        assert self._stored() == before

    def _stored(self) -> list[tuple[Any, ...]]:
        return self.rows(
            "select v.ordinal, v.served_revision, v.newest_revision, r.revision, r.approval, r.processing"
            " from app.asset_versions v join app.revisions r using (asset_id, ordinal) order by 1, 4"
        )

    @precondition(lambda self: self.versions)
    @rule(
        choice=st.integers(0, 5), verb=st.sampled_from(["approve", "reject"]), level=st.sampled_from(["ouo", "public"])
    )
    def decide(self, choice: int, verb: str, level: str) -> None:
        ordinal, version = self.some(choice)
        more = {"clearance_level": level} if verb == "approve" else {}
        answer = self.do(decide(self.domain, self.asset_id, ordinal, verb, revision=version.revision, **more))
        expected = version.processing == "completed" and version.approval == "pending_review"
        assert answer.is_success is expected, answer.text
        if expected:
            self._decided(version, verb, level)
            assert answer.json()["latest_ordinal"] == self.latest

    def _decided(self, version: Version, verb: str, level: str) -> None:
        self.decisions += 1
        version.decided = True
        version.approval = "approved" if verb == "approve" else "rejected"
        if verb == "approve":
            version.served = version.revision
            self.clearance = max(self.clearance, level, key=CLEARANCES.index)

    @precondition(lambda self: self.versions)
    @rule(choice=st.integers(0, 5))
    def race(self, choice: int) -> None:
        """Two clients approve at once: one of them does. Who wins may not matter, or examples could not be repeated."""
        ordinal, version = self.some(choice)

        async def both() -> list[httpx.Response]:
            acts = (decide(self.domain, self.asset_id, ordinal, "approve", revision=version.revision) for _ in "ab")
            return await asyncio.gather(*acts)

        answers = self.do(both())
        open_for_decision = version.processing == "completed" and version.approval == "pending_review"
        assert sum(answer.is_success for answer in answers) == int(open_for_decision)
        if open_for_decision:
            self._decided(version, "approve", "ouo")

    @precondition(lambda self: self.versions)
    @rule(choice=st.integers(0, 5))
    def unpublish(self, choice: int) -> None:
        ordinal, version = self.some(choice)
        served = version.served
        answer = self.do(decide(self.domain, self.asset_id, ordinal, "unpublish", revision=served or version.revision))
        assert answer.is_success is (served is not None), answer.text
        if served is not None:
            self.decisions += 1
            version.served = None
            if served == version.revision:
                version.approval = "pending_review"
            assert answer.json()["latest_ordinal"] == self.latest

    @precondition(lambda self: self.versions)
    @rule(choice=st.integers(0, 5))
    def delete(self, choice: int) -> None:
        ordinal, version = self.some(choice)
        path = f"/assets/{self.asset_id}/versions/{ordinal}?reason=unwanted"
        answer = self.do(call(self.domain, "reviewer", "DELETE", path, headers={"If-Match": "*"}))
        assert answer.is_success is (version.served is None), answer.text
        if version.served is None:
            self.decisions += 1
            self.fenced.append(self.versions.pop(ordinal).flow)

    @precondition(lambda self: self.asset_id)
    @rule(level=st.sampled_from(CLEARANCES))
    def clear(self, level: str) -> None:
        body = {"clearance_level": level, "reason": "because"}
        path = f"/assets/{self.asset_id}/clearance"
        assert self.do(call(self.domain, "reviewer", "POST", path, body, headers={"If-Match": "*"})).is_success
        self.decisions += 1
        self.clearance = level

    @invariant()
    def the_database_is_the_model(self) -> None:
        rows = self.rows(
            "select v.ordinal, v.label, v.served_revision, v.newest_revision, r.approval, r.processing"
            " from app.asset_versions v join app.revisions r on (r.asset_id, r.ordinal, r.revision)"
            " = (v.asset_id, v.ordinal, v.newest_revision) where v.deleted_at is null order by 1"
        )
        states = {"pending": "open", "processing": "open"}
        found = [(*row[:5], states.get(row[5], row[5])) for row in rows]
        assert found == [
            (ordinal, version.label, version.served, version.revision, version.approval, version.processing)
            for ordinal, version in sorted(self.versions.items())
        ]
        assert self.rows("select clearance from app.assets") in ([], [(self.clearance,)])

    @invariant()
    def the_laws_hold(self) -> None:
        """Whatever happened: no row that breaks one of these is there."""
        assert self.rows(LAWS) == []
        assert self.rows("select count(*) from app.audit") == [(self.decisions,)]


# Each finds the rows that break it.
LAWS = """
    select 'only what was approved and completed is served', v.asset_id
    from app.asset_versions v join app.revisions r
        on (r.asset_id, r.ordinal, r.revision) = (v.asset_id, v.ordinal, v.served_revision)
    where r.approval <> 'approved' or r.processing <> 'completed'
    union all select 'what is served is not deleted', asset_id
    from app.asset_versions where deleted_at is not null and served_revision is not null
    union all select 'a request and its revision say the same', request_id::text
    from app.requests q join app.revisions r using (request_id) where q.status <> r.processing
    union all select 'open runs, and only they, have one live attempt', r.run_id::text
    from app.runs r left join app.attempts a
        on a.run_id = r.run_id and a.state in ('ready', 'sending', 'sent', 'started')
    where (a.run_id is not null) <> (r.state in ('pending', 'running'))
    union all select 'a run is committed at most once', run_id::text
    from app.attempts where state = 'committed' group by run_id having count(*) > 1
    union all select 'only a live export gives addresses', a.asset_id
    from app.artifacts a left join app.exports e
        on (e.asset_id, e.ordinal, e.revision) = (a.asset_id, a.ordinal, a.revision) and e.withdrawn_at is null
    where a.external_blob_path is not null and e.request_id is null
"""


def test_random_order_of_acts_agrees_with_the_model(world: World) -> None:
    machine = type("Machine", (Lifecycle,), {"world": world})
    profile = settings(
        max_examples=RUNS,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=profile)
    print(f"\nn = {world.begun} lives of up to {STEPS} steps")  # noqa: T201
