"""The reconciler's table: every state of an attempt, every word of Prefect, every age that matters."""

from itertools import product

import pytest

from domain.rules.lifecycle import AttemptState
from domain.rules.reconcile import OVER, Action, AttemptFacts, FlowState, Patience, decide

PATIENCE = Patience()
AGES = (0, 7, 8, 9, 10, 19, 20, 29, 30, 59, 60, 89, 90, 119, 120, 299, 300, 599, 600, 10_000)
EVERY = list(product(AttemptState, FlowState, AGES, (True, False), (True, False), (True, False)))
CHANGING = {Action.LOSE, Action.FAIL_ENDED, Action.CANCEL}


def told(state: str, flow: str, quiet: float, *, lease_expired: bool = False, paused: bool = False) -> str:
    facts = AttemptFacts(AttemptState(state), quiet, lease_expired, paused)
    return decide(facts, FlowState(flow), PATIENCE).name


@pytest.mark.parametrize(
    ("state", "flow", "quiet", "action"),
    [
        ("sent", "scheduled", 119, "LEAVE"),
        ("sent", "scheduled", 120, "WARN"),
        ("sent", "pending", 119, "LEAVE"),
        ("sent", "pending", 120, "LOSE"),
        ("sent", "running", 119, "LEAVE"),
        ("sent", "running", 120, "LOSE"),
        ("sent", "beginning", 10_000, "LEAVE"),
        ("sent", "missing", 10, "LOSE"),
        ("sent", "crashed", 10, "LOSE"),
        ("sent", "completed", 10, "FAIL_ENDED"),
        ("sent", "cancelled", 10, "CANCEL"),
        ("sent", "cancelling", 10_000, "LEAVE"),
        ("sent", "overstaying", 9, "LEAVE"),
        ("sent", "overstaying", 10, "CANCEL"),
        ("sent", "unknown", 10_000, "LEAVE"),
        ("started", "running", 59, "LEAVE"),
        ("started", "running", 60, "WARN"),
        ("started", "running", 89, "WARN"),
        ("started", "running", 90, "LOSE"),
        ("started", "beginning", 90, "LOSE"),
        (
            "started",
            "crashed",
            19,
            "LEAVE",
        ),  # between two heartbeats it is quiet for as long as ten seconds, and a little
        ("started", "crashed", 20, "LOSE"),
        ("started", "failed", 20, "LOSE"),
        ("started", "completed", 20, "FAIL_ENDED"),
        ("started", "missing", 20, "LOSE"),
        ("started", "cancelled", 9, "LEAVE"),
        ("started", "cancelled", 10, "CANCEL"),
        ("started", "overstaying", 9, "LEAVE"),
        ("started", "overstaying", 10, "CANCEL"),
        ("started", "unknown", 89, "WARN"),
        ("started", "unknown", 90, "LOSE"),
        ("committed", "completed", 0, "DISPOSE"),
        ("committed", "running", 299, "LEAVE"),
        ("committed", "running", 300, "STOP_FLOW"),
        ("fenced", "running", 7, "LEAVE"),
        ("fenced", "running", 8, "STOP_FLOW"),
        ("fenced", "scheduled", 7, "LEAVE"),
        ("fenced", "scheduled", 8, "STOP_FLOW"),
        ("fenced", "missing", 0, "DISPOSE"),
        ("failed", "cancelling", 10_000, "LEAVE"),
        ("failed", "overstaying", 0, "STOP_FLOW"),
        ("fenced", "overstaying", 0, "STOP_FLOW"),
        ("committed", "overstaying", 0, "STOP_FLOW"),
        ("ready", "missing", 10_000, "LEAVE"),
    ],
)
def test_every_row_of_the_table_gives_its_action(state: str, flow: str, quiet: float, action: str) -> None:
    assert told(state, flow, quiet) == action


@pytest.mark.parametrize(
    ("waits", "began", "seconds"), [(0, 0, 120), (200, 0, 120), (1, 600, 120.2), (200, 100, 360), (200, 1, 1200)]
)
@pytest.mark.parametrize("flow", ["pending", "running"])
def test_attempt_waits_for_its_start_in_proportion_to_its_pools_queue(
    waits: int, began: int, seconds: float, flow: str
) -> None:
    for quiet, action in ((seconds - 0.1, Action.LEAVE), (seconds, Action.LOSE)):
        facts = AttemptFacts(AttemptState.SENT, quiet, pool_waits=waits, pool_began=began)
        assert decide(facts, FlowState(flow), PATIENCE) is action


@pytest.mark.parametrize("flow", FlowState)
def test_an_expired_lease_is_returned_or_linked(flow: FlowState) -> None:
    assert told("sending", flow, 1_000) == "LEAVE"
    expected = {"missing": "RETURN", "unknown": "LEAVE"}.get(flow, "LINK")
    assert told("sending", flow, 0, lease_expired=True) == expected


def test_no_action_in_any_state_breaks_the_laws() -> None:
    assert len(EVERY) == 13440
    for state, flow, quiet, lease, paused, spoke in EVERY:
        obeys_the_laws(AttemptFacts(state, quiet, lease, paused, spoke=spoke), flow)


def obeys_the_laws(facts: AttemptFacts, flow: FlowState) -> None:
    action, state, quiet, paused = decide(facts, flow, PATIENCE), facts.state, facts.quiet_seconds, facts.paused
    if action in CHANGING:
        assert state in {AttemptState.SENT, AttemptState.STARTED}, "what has ended stays as it ended"
        assert quiet >= PATIENCE.heartbeat, "Prefect's word alone never decides about one who just spoke"
        if state is AttemptState.STARTED and action is not Action.CANCEL:
            assert quiet >= PATIENCE.missed, "nor of one who is between two heartbeats"
        assert facts.spoke or quiet >= PATIENCE.suspect, "nor about one who may be on its way back after a gap"
    if state is AttemptState.SENT and paused and flow not in OVER | {FlowState.OVERSTAYING}:
        assert action is Action.LEAVE, "a pause uses up no try"
    if flow is FlowState.UNKNOWN and action in CHANGING:
        assert (state, quiet >= PATIENCE.lost) == (AttemptState.STARTED, True), "our heartbeat decides without Prefect"
    if action is Action.DISPOSE:
        assert flow in OVER


def test_queued_flow_run_of_a_cancelled_run_is_stopped_at_once() -> None:
    for flow in FlowState:
        facts = AttemptFacts(AttemptState.FENCED, 0, cancelled=True)
        stopped = dict.fromkeys((FlowState.SCHEDULED, FlowState.OVERSTAYING), Action.STOP_FLOW)
        expected = stopped | dict.fromkeys(OVER, Action.DISPOSE)
        assert decide(facts, flow, PATIENCE) is expected.get(flow, Action.LEAVE)


@pytest.mark.parametrize(
    ("state", "flow", "action"),
    [
        ("sent", "crashed", "LOSE"),
        ("started", "crashed", "LOSE"),
        ("started", "failed", "LOSE"),
        ("started", "missing", "LOSE"),
        ("started", "completed", "FAIL_ENDED"),
        ("started", "cancelled", "CANCEL"),
        ("sent", "missing", "LOSE"),
    ],
)
def test_prefects_state_is_believed_after_a_gap_only_once_a_flow_run_could_beat(
    state: str, flow: str, action: str
) -> None:
    def said(quiet: float) -> str:
        return decide(AttemptFacts(AttemptState(state), quiet, spoke=False), FlowState(flow), PATIENCE).name

    assert (said(PATIENCE.suspect - 1), said(PATIENCE.suspect)) == ("LEAVE", action)


@pytest.mark.parametrize("flow", FlowState)
def test_every_started_attempt_that_stays_silent_is_acted_on(flow: FlowState) -> None:
    for spoke in (True, False):
        assert decide(AttemptFacts(AttemptState.STARTED, 10_000, spoke=spoke), flow, PATIENCE) in CHANGING


ENDED = (AttemptState.COMMITTED, AttemptState.FAILED, AttemptState.FENCED)


def test_state_of_an_ended_attempt_is_never_changed_by_prefects_word() -> None:
    """Only its flow run is seen to: it was fenced, ended, or another attempt has its place."""
    for state, flow, quiet, lease, paused, spoke in EVERY:
        for cancelled in (True, False):
            facts = AttemptFacts(state, quiet, lease, paused, cancelled, spoke)
            if state in ENDED:
                assert decide(facts, flow, PATIENCE) in {Action.LEAVE, Action.STOP_FLOW, Action.DISPOSE}


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("flow", sorted(set(FlowState) - {FlowState.UNKNOWN, FlowState.CANCELLING}))
def test_flow_run_of_an_ended_attempt_is_stopped_or_disposed_of(state: AttemptState, flow: FlowState) -> None:
    """Without a word of Prefect's nobody can say, and who was told to stop is given a minute: then it overstays."""
    facts = AttemptFacts(state, PATIENCE.stop_ended)
    assert decide(facts, flow, PATIENCE) is (Action.DISPOSE if flow in OVER else Action.STOP_FLOW)


@pytest.mark.parametrize(("answers", "action"), [(0, "LEAVE"), (119, "LEAVE"), (120, "LOSE")])
def test_start_that_needs_prefect_is_given_its_full_time_after_an_outage_of_prefect(
    answers: float, action: str
) -> None:
    waiting = AttemptFacts(AttemptState.SENT, 10_000)
    assert decide(waiting, FlowState.PENDING, Patience(prefect_answers=answers)).name == action


def test_an_attempt_that_began_is_lost_whether_prefect_answers_or_not() -> None:
    silent = AttemptFacts(AttemptState.STARTED, 90)
    assert decide(silent, FlowState.UNKNOWN, Patience(prefect_answers=0)) is Action.LOSE
