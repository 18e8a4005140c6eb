"""Two clients at once, each at a domain of its own over one database: whatever they do, it is as if one had come first.

The short form runs in seconds. CAIRN_MACHINE_RUNS=2000 CAIRN_MACHINE_STEPS=50 is the full one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.domain.test_machine import LAWS, RUNS, STEPS, World
from tests.support import lifecycle_model as model_of
from tests.support.acts import SHA256, Flow, call, decide, dispatched, submit
from tests.support.cluster import TestCluster
from tests.support.lifecycle_model import Model, Step
from tests.support.platform import Domain, another_domain

COG = {"role": "cog", "zone": "silver", "name": "x/cog.tif", "media_type": "image/tiff", "size_bytes": 1}
VERBS = ["submit", "submit", "commit", "commit", "fail", "approve", "approve", "reject", "unpublish", "delete"]
ASSET_VERBS = ["clear", "expose", "export", "export"]
WISHES = st.tuples(
    st.sampled_from([*VERBS, *ASSET_VERBS]),
    st.integers(0, 11),
    st.sampled_from("abc"),
    st.sampled_from(["ouo", "public"]),
)
Wish = tuple[str, int, str, str]


@dataclass(frozen=True)
class Move:
    """One act of one client: how it is done, and the step of the model that it must come to."""

    wish: Wish
    do: Callable[[Domain], Awaitable[httpx.Response]]
    step: Step


class Racing(RuleBasedStateMachine):
    """One asset under two clients. The model follows whichever order explains what happened."""

    world: World

    @initialize()
    def begin(self) -> None:
        self.domain = self.world.empty()
        if self.world.other is None:
            beside = another_domain(self.domain.database, self.world.storage, quota_cache_seconds=0)
            self.world.other = self.world.do(self.world.stack.enter_async_context(beside))
        self.model = Model()
        self.flows: dict[model_of.Place, Flow] = {}
        self.exports: dict[tuple[model_of.Place, int], Flow] = {}
        self.asset_id = ""

    @rule(first=WISHES, second=WISHES)
    def race(self, first: Wish, second: Wish) -> None:
        assert self.world.other is not None
        moves = [self._move(wish) for wish in (first, second)]
        answers = self.world.do(_both(moves[0].do(self.domain), moves[1].do(self.world.other)))
        assert all(answer.status_code < 500 for answer in answers), [answer.text for answer in answers]
        heard = [_told(answer) for answer in answers]
        stored = self._stored()
        explained = [model for model, told in _orders(self.model, moves) if told == heard and _shape(model) == stored]
        assert explained, (first, second, heard, stored, [_shape(model) for model, _ in _orders(self.model, moves)])
        self.model = explained[0]
        self._take_what_is_due()

    @rule(level=st.sampled_from(["ouo", "public"]), second=WISHES)
    def further(self, level: str, second: Wish) -> None:
        """The next act on the way that most data takes, so that examples get far enough to be interesting."""
        self.race(self._next_act(level), second)

    def _next_act(self, level: str) -> Wish:
        ordinals = [ordinal for ordinal, v in sorted(self.model.versions.items()) if not v.deleted]
        if not ordinals:
            return "submit", 0, "a", level
        newest = self.model.versions[ordinals[-1]]
        made = self.model.revisions[ordinals[-1], newest.newest]
        last = len(ordinals) - 1
        if made.processing == "open":
            return "commit", last, newest.label, level
        if made.processing == "completed" and made.approval == "pending_review":
            return "approve", last, newest.label, level
        unfinished = [at for at, one in enumerate(sorted(self.exports)) if one not in self.model.ended]
        return ("export", unfinished[0], "a", level) if unfinished else ("submit", 0, "abc"[len(ordinals) % 3], level)

    def _move(self, wish: Wish) -> Move:
        """The wish, meant for what there is now. Where there is nothing that it could be about, a submission."""
        verb, choice, label, level = wish
        ordinals = [ordinal for ordinal, v in sorted(self.model.versions.items()) if not v.deleted]
        if self.asset_id and (verb in {"clear", "expose"} or (verb == "export" and self.exports)):
            return self._asset_move(wish)
        if verb == "submit" or not ordinals or verb == "export":
            return Move(
                wish,
                lambda domain: submit(domain, version_label=label, source=f"uploads/{level}"),
                model_of.submit(label, level),
            )
        ordinal = ordinals[choice % len(ordinals)]
        version = self.model.versions[ordinal]
        newest = (ordinal, version.newest)
        if verb in {"commit", "fail"}:
            return Move(
                wish,
                lambda domain: _end(domain, self.flows[newest], verb),
                model_of.end(newest, "completed" if verb == "commit" else "failed"),
            )
        if verb in {"approve", "reject"}:
            more = {"clearance_level": level} if verb == "approve" else {}
            approval = "approved" if verb == "approve" else "rejected"
            return Move(
                wish,
                lambda domain: decide(domain, self.asset_id, ordinal, verb, revision=version.newest, **more),
                model_of.decide(newest, approval, level),  # type: ignore[arg-type]
            )
        if verb == "unpublish":
            revision = version.served or version.newest
            return Move(
                wish,
                lambda domain: decide(domain, self.asset_id, ordinal, verb, revision=revision),
                model_of.unpublish((ordinal, revision)),
            )
        path = f"/assets/{self.asset_id}/versions/{ordinal}?reason=unwanted"
        return Move(wish, lambda domain: _staff(domain, "DELETE", path), model_of.delete(ordinal))

    def _asset_move(self, wish: Wish) -> Move:
        verb, choice, label, level = wish
        if verb == "export":
            which, number = sorted(self.exports)[choice % len(self.exports)]
            flow = self.exports[which, number]
            return Move(wish, lambda domain: _export(domain, self.world, flow), model_of.export(which, number))
        if verb == "expose":
            exposure = "all_versions" if label == "a" else "latest_only"
            body = {"exposure": exposure}
            step = model_of.expose(exposure)  # type: ignore[arg-type]
        else:
            wanted = "uncleared" if label == "a" else level
            body = {"clearance_level": wanted, "reason": "because"}
            step = model_of.clear(wanted)  # type: ignore[arg-type]
        path = f"/assets/{self.asset_id}/{'exposure' if verb == 'expose' else 'clearance'}"
        return Move(wish, lambda domain: _staff(domain, "POST", path, body), step)

    def _take_what_is_due(self) -> None:
        """Have flow runs for all new attempts."""
        flows = {flow.run_id: flow for flow in self.world.do(dispatched(self.domain))}
        for run_id, ordinal, revision in self.world.rows(
            "select run_id, ordinal, revision from app.runs join app.requests using (request_id) where not is_internal"
        ):
            if run_id in flows:
                self.flows[ordinal, revision] = flows[run_id]
        for run_id, ordinal, revision, number in self.world.rows(
            "select run_id, ordinal, revision, row_number() over (partition by ordinal, revision order by created_at)"
            " from (select run_id, e.* from app.exports e join app.runs using (request_id)) as made"
        ):
            if run_id in flows:
                self.exports[(ordinal, revision), number - 1] = flows[run_id]
        [(self.asset_id,)] = self.world.rows("select asset_id from app.assets") or [("",)]

    def _stored(self) -> tuple[Any, ...]:
        """The asset as the database holds it, in the model's words."""
        states = "case when processing in ('pending', 'processing') then 'open' else processing end"
        return (
            self.world.rows(
                "select ordinal, label, newest_revision, served_revision, deleted_at is not null"
                " from app.asset_versions order by 1"
            ),
            self.world.rows(
                f"select r.ordinal, r.revision, submitted ->> 'source', approval, {states}, decided_at is not null"  # noqa: S608
                " from app.revisions r join app.requests using (request_id) order by 1, 2"
            ),
            self.world.rows("select clearance, exposure from app.assets"),
            self.world.rows(
                "select ordinal, revision, bool_or(external_blob_path is not null) from app.exports e"
                " join app.artifacts a using (asset_id, ordinal, revision) where withdrawn_at is null"
                " group by 1, 2 order by 1, 2"
            ),
            self.world.rows("select ordinal, revision, count(*) from app.exports group by 1, 2 order by 1, 2"),
        )

    @invariant()
    def the_laws_hold(self) -> None:
        assert self.world.rows(LAWS) == []


def _told(answer: httpx.Response) -> int:
    """The status, all refusals alike and all that is done alike."""
    if answer.is_success:
        return model_of.DONE if answer.status_code != model_of.ACCEPTED else model_of.ACCEPTED
    return model_of.REFUSED


async def _both(first: Awaitable[httpx.Response], second: Awaitable[httpx.Response]) -> list[httpx.Response]:
    return list(await asyncio.gather(first, second))


async def _end(domain: Domain, flow: Flow, verb: str) -> httpx.Response:
    """A worker of this client's domain. Its start may be refused: then its end is, too."""
    mine = Flow(domain, flow.run_id, flow.token, flow.flow_run_id)
    await mine.start()
    return await (mine.commit(artifacts=[mine.own(COG)]) if verb == "commit" else mine.fail())


async def _export(domain: Domain, world: World, flow: Flow) -> httpx.Response:
    mine = Flow(domain, flow.run_id, flow.token, flow.flow_run_id)
    await mine.start()
    [(destination,)] = world.rows(f"select inputs ->> 'destination' from app.runs where run_id = '{flow.run_id}'")  # noqa: S608
    copy = COG | {"sha256": SHA256, "zone": "external", "name": f"{destination}/cog.tif"}
    return await mine.commit({"external_blob_path": destination}, artifacts=[copy])


async def _staff(domain: Domain, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    return await call(domain, "reviewer", method, path, body, headers={"If-Match": "*"})


def _orders(model: Model, moves: list[Move]) -> Iterator[tuple[Model, list[int]]]:
    """Both orders: the state after, and what each client hears."""
    first, second = moves
    after, heard = first.step(model)
    last, heard_too = second.step(after)
    yield last, [heard, heard_too]
    after, heard_too = second.step(model)
    last, heard = first.step(after)
    yield last, [heard, heard_too]


def _shape(model: Model) -> tuple[Any, ...]:
    versions = sorted(model.versions.items())
    has_asset = bool(versions)
    return (
        [(ordinal, v.label, v.newest, v.served, v.deleted) for ordinal, v in versions],
        [
            (*which, f"uploads/{made.source}", made.approval, made.processing, made.decided)
            for which, made in sorted(model.revisions.items())
        ],
        [(model.clearance, model.exposure)] if has_asset else [],
        [(*which, (which, number) in model.ended) for which, number in sorted(model.out.items())],
        [(*which, count) for which, count in sorted(model.begun.items())],
    )


@pytest.fixture
def world(cluster: TestCluster, tmp_path: Path) -> Iterator[World]:
    made = World(cluster, tmp_path)
    yield made
    made.close()


def test_racing_clients_see_one_order_of_acts(world: World) -> None:
    machine = type("Machine", (Racing,), {"world": world})
    profile = settings(
        max_examples=RUNS,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],  # a race need not come out the same again: nothing to shrink by
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=profile)
    print(f"\nn = {world.begun} races of up to {STEPS} steps")  # noqa: T201
