"""Quiet attempts after a time in which nobody could hear them. That time passes in the tables, not on a clock.

`tests/chaos/test_outages.py` has the same with a PostgreSQL that is really away.
"""

import asyncio
from dataclasses import replace
from itertools import product
from pathlib import Path

import psycopg
import pytest

from domain.loops.listening_notes import ListeningNotes
from domain.loops.reconciler import Reconciler
from domain.loops.unserved_pools import UnservedPoolSweep
from domain.repositories.listening import ListeningSpans
from domain.repositories.sweep import Sweep
from domain.rules.lifecycle import AttemptState
from domain.rules.reconcile import OVER, Action, FlowState, Patience
from domain.rules.routing import PoolNotice
from domain.services.runs.endings import RunLifecycle
from tests.support.acts import Flow, call, dispatched, submit, time_passes
from tests.support.clock import eventually
from tests.support.platform import Domain, another_domain
from tests.support.scripted_prefect import ScriptedPrefect, sent, sweep

PATIENCE = Patience()
OUTAGE = 1.5 * PATIENCE.lost
LOSING = {Action.LOSE, Action.FAIL_ENDED, Action.CANCEL}


async def many_started(domain: Domain, count: int) -> list[Flow]:
    for number in range(count):
        assert (await submit(domain, refs={"dataset_id": "d", "resource_id": str(number)})).status_code == 202
    flows = await dispatched(domain)
    for flow in flows:
        assert (await flow.start()).is_success
    return flows


async def comes_back(domain: Domain) -> ListeningNotes:
    """A process that listens from now on, as one does that was away for longer than a gap."""
    listener = ListeningNotes(domain.service.database, PATIENCE.gap)
    await listener.note()
    return listener


def fenced(domain: Domain) -> set[object]:
    return {run_id for (run_id,) in domain.rows("select run_id from app.attempts where state = 'fenced'")}


async def test_after_an_outage_every_dead_attempt_is_fenced_and_no_living_one(domain: Domain) -> None:
    """Each replica sweeps: one that was there before, and one that began after the outage."""
    flows = await many_started(domain, 20)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING for flow in flows})
    time_passes(domain, OUTAGE, away=True)
    assert not LOSING & set(await sweep(domain, prefect)), "before anybody has noted that it listens again"
    await comes_back(domain)
    time_passes(domain, PATIENCE.lost - 15)
    assert set(await sweep(domain, prefect)) == {Action.WARN}
    living, dead = flows[::2], flows[1::2]
    for flow in living:
        assert (await flow.beat()).json() == {"stop": False}
    assert fenced(domain) == set(), "not sooner than a loss threshold after the outage"
    time_passes(domain, 15)
    done = await sweep(domain, prefect)
    assert done == {Action.LOSE: len(dead), Action.LEAVE: len(living)}, "at one loss threshold, not later"
    assert fenced(domain) == {flow.run_id for flow in dead}
    print(f"fenced in an outage of {OUTAGE:.0f} s: 0 of {len(living)} that live, {len(dead)} of {len(dead)} dead")  # noqa: T201
    for flow in living:
        assert (await flow.commit()).is_success


@pytest.mark.parametrize("state", [AttemptState.SENT, AttemptState.STARTED])
async def test_attempt_has_time_to_beat_after_an_outage_whatever_prefect_says(
    domain: Domain, state: AttemptState
) -> None:
    """Prefect may have been away together with us, and have marked healthy flow runs as crashed."""
    prefect = ScriptedPrefect()
    flow = await sent(domain, prefect, "running")
    if state is AttemptState.STARTED:
        await flow.start()
    time_passes(domain, OUTAGE, away=True)
    await comes_back(domain)
    for quiet, told in product((0, PATIENCE.suspect / 2), FlowState):
        time_passes(domain, quiet)
        prefect.flows[flow.flow_run_id] = told
        done = await sweep(domain, prefect)
        assert set(done) <= {Action.LEAVE}, (told, quiet, done)
        time_passes(domain, -quiet)
    prefect.flows[flow.flow_run_id] = FlowState.CRASHED
    time_passes(domain, PATIENCE.suspect)
    assert await sweep(domain, prefect) == {Action.LOSE: 1}


# One that overstays was told to stop long ago, by an operator: that is seen to whatever we could hear.
@pytest.mark.parametrize("told", [one for one in FlowState if one not in OVER | {FlowState.OVERSTAYING}])
async def test_flow_run_of_an_attempt_committed_in_an_outage_is_not_stopped_early(
    domain: Domain, told: FlowState
) -> None:
    """It committed, the answer was lost in the outage, and it asks again."""
    [flow] = await many_started(domain, 1)
    assert (await flow.commit()).is_success
    prefect = ScriptedPrefect({flow.flow_run_id: told})
    time_passes(domain, PATIENCE.stop_ended + OUTAGE, away=True)
    await comes_back(domain)
    assert await sweep(domain, prefect) == {Action.LEAVE: 1}
    time_passes(domain, PATIENCE.stop_ended)
    waits = told in {FlowState.CANCELLING, FlowState.UNKNOWN}
    assert await sweep(domain, prefect) == {Action.LEAVE if waits else Action.STOP_FLOW: 1}


async def test_outage_between_two_looks_of_a_sweep_is_known_at_the_second(domain: Domain) -> None:
    """A process that was frozen between the two goes on where it was."""
    [flow] = await many_started(domain, 1)
    time_passes(domain, PATIENCE.lost + 5)
    async with domain.service.database.transaction() as session:
        [suspect] = await Sweep(session).quiet(PATIENCE.heartbeat)
    assert suspect.facts.quiet_seconds >= PATIENCE.lost
    time_passes(domain, OUTAGE, away=True)
    async with domain.service.database.transaction() as session:
        done = await RunLifecycle(session).reconcile(suspect, FlowState.RUNNING, PATIENCE)
    assert done is Action.LEAVE
    assert (await flow.beat()).json() == {"stop": False}


async def test_heartbeats_heard_by_one_process_count_for_one_that_was_cut_off(domain: Domain, tmp_path: Path) -> None:
    """The one that was cut off begins anew. A dead attempt is found all the same, by either."""
    flows = await many_started(domain, 2)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING for flow in flows})
    async with another_domain(domain.database, tmp_path) as cut_off:
        there = await comes_back(domain)
        time_passes(domain, PATIENCE.lost)
        with psycopg.connect(domain.database.url()) as connection:
            connection.execute(
                "update app.listening_spans set noted_at = noted_at - interval '60 s' where span_id <> %s",
                [there._span_id],
            )
        await comes_back(cut_off)
        assert (await flows[0].beat()).json() == {"stop": False}
        assert await sweep(cut_off, prefect) == {Action.LOSE: 1}
        assert await sweep(domain, prefect) == {}
    assert fenced(domain) == {flows[1].run_id}


async def test_no_attempt_is_taken_for_lost_without_a_listening_note(domain: Domain) -> None:
    [flow] = await many_started(domain, 1)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING})
    time_passes(domain, 10_000)
    domain.rows("delete from app.listening_spans returning span_id")
    assert set(await sweep(domain, prefect)) <= {Action.LEAVE}


async def test_a_process_that_was_away_longer_than_a_gap_begins_anew(
    domain: Domain, caplog: pytest.LogCaptureFixture
) -> None:
    async def seconds() -> float:
        async with domain.service.database.transaction() as session:
            return (await ListeningSpans(session).moment(PATIENCE.gap)).seconds

    listener = await comes_back(domain)
    time_passes(domain, 1000)
    await listener.note()
    assert await seconds() >= 1000, "it went on"
    time_passes(domain, PATIENCE.gap / 3, away=True)
    await listener.note()
    assert await seconds() >= 1000, "what is shorter than a gap is none"
    assert "could not be taken" not in caplog.text
    time_passes(domain, PATIENCE.gap, away=True)
    await listener.note()
    assert await seconds() < PATIENCE.gap
    assert "heartbeats could not be taken; silence counts from now on" in caplog.text


async def test_taken_heartbeat_counts_as_a_listening_note(domain: Domain, tmp_path: Path) -> None:
    """After an outage many wait for a connection, and notes among them: what is heard meanwhile must count."""
    [flow] = await many_started(domain, 1)
    rarely = {"attempt_lost_seconds": 1e6, "beacon_silence_seconds": 1e6}  # so that the loop notes nothing meanwhile
    async with another_domain(domain.database, tmp_path, **rarely) as other:
        listener = other.service.listener
        noted = "select noted_at > since from app.listening_spans where span_id = %s"
        assert other.rows(noted, listener._span_id) == [(False,)]
        listener._noted_at = float("-inf")
        await replace(flow, domain=other).beat()
        assert other.rows(noted, listener._span_id) == [(True,)]


async def test_old_listening_notes_are_removed(domain: Domain) -> None:
    time_passes(domain, 7200, away=True)
    await comes_back(domain)
    assert domain.rows("select count(*) from app.listening_spans where noted_at < now() - interval '1 hour'") == [(0,)]


async def test_a_domain_notes_that_it_listens_before_its_first_request(domain: Domain) -> None:
    assert domain.rows("select noted_at >= since from app.listening_spans") == [(True,)]


async def test_a_domain_goes_on_noting_that_it_listens(domain: Domain, tmp_path: Path) -> None:
    async with another_domain(domain.database, tmp_path, attempt_lost_seconds=0.6):
        await eventually(lambda: domain.rows("select from app.listening_spans where noted_at > since"))


# --- the look for runs that nobody serves ---


def look(domain: Domain) -> UnservedPoolSweep:
    return UnservedPoolSweep(domain.service.database, 5, 25, 600)


async def waits(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    await call(domain, "worker", "POST", "/pools/light/beacon", {"worker": "w"})
    domain.rows("update app.attempts set state = 'sent', flow_run_id = %s returning 1", flow.flow_run_id)


async def test_no_pool_is_called_unserved_before_its_workers_could_be_heard_after_an_outage(
    domain: Domain,
) -> None:
    await waits(domain)
    time_passes(domain, OUTAGE, away=True)
    await comes_back(domain)
    assert await look(domain).look() == {}
    time_passes(domain, 10)
    assert await look(domain).look() == {}
    time_passes(domain, 15)
    assert await look(domain).look() == {PoolNotice.MARK: 1}


async def test_no_run_is_given_up_for_the_time_of_an_outage(domain: Domain) -> None:
    await waits(domain)
    time_passes(domain, 30)
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    time_passes(domain, 500)
    assert await look(domain).look() == {}
    time_passes(domain, OUTAGE, away=True)
    await comes_back(domain)
    time_passes(domain, 500)
    assert await look(domain).look() == {}, "a worker may have come, and gone, unheard"
    time_passes(domain, 100)
    assert await look(domain).look() == {PoolNotice.FAIL: 1}


async def test_started_service_judges_no_pool_before_every_worker_could_be_heard(domain: Domain) -> None:
    await submit(domain)
    await dispatched(domain)
    domain.rows("update app.attempts set state = 'sent' returning 1")
    assert await look(domain).look() == {}
    time_passes(domain, 25)
    assert await look(domain).look() == {PoolNotice.MARK: 1}


async def test_sweep_in_another_process_finds_dead_attempts(domain: Domain) -> None:
    """The loop as the service has it, over the notes that the service makes by itself."""
    [flow] = await many_started(domain, 1)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING})
    time_passes(domain, PATIENCE.lost)
    sweeping = asyncio.create_task(Reconciler(domain.service.database, prefect, 0.05, PATIENCE, 3).run())
    await eventually(lambda: fenced(domain))
    sweeping.cancel()
    assert fenced(domain) == {flow.run_id}
